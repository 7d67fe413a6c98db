/** Longer words than any key or alias are not worth the arithmetic. */
const MAX_LENGTH = 64;

/** More edits away, a word is another word. */
const MAX_EDITS = 6;

/** How many single-character edits turn `a` into `b` (Levenshtein). */
function countEdits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const above = row;
    row = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1;
      row[j] = Math.min(above[j]! + 1, row[j - 1]! + 1, above[j - 1]! + change);
    }
  }
  return row[b.length]!;
}

/** `; did you mean "…"?` with the known word nearest to `word`, or nothing when none is near. */
export function suggest(word: string, known: readonly string[]): string {
  if (word.length > MAX_LENGTH) return "";
  const most = Math.min(Math.max(1, Math.floor(word.length / 3)), MAX_EDITS);
  let nearest: string | undefined;
  let least = most + 1;
  for (const name of known) {
    // Of a thousand aliases this leaves few to look at.
    if (Math.abs(name.length - word.length) >= least) continue;
    const edits = countEdits(word.toLowerCase(), name.toLowerCase());
    if (edits < least) [nearest, least] = [name, edits];
  }
  return nearest === undefined ? "" : `; did you mean "${nearest}"?`;
}
