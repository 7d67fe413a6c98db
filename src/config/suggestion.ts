/** How many single-character edits turn `a` into `b` (Levenshtein). */
function distance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1;
      row.push(Math.min(previous[j]! + 1, row[j - 1]! + 1, previous[j - 1]! + change));
    }
    previous = row;
  }
  return previous.at(-1)!;
}

/** `; did you mean "…"?` with the known word nearest to `word`, or nothing when none is near. */
export function suggest(word: string, known: readonly string[]): string {
  // Longer words than any key are not worth the arithmetic.
  const given = word.slice(0, 64).toLowerCase();
  const nearest = known
    .map((name) => ({ name, edits: distance(given, name.toLowerCase()) }))
    .sort((a, b) => a.edits - b.edits)[0];
  if (nearest === undefined || nearest.edits > Math.max(1, Math.floor(given.length / 3))) return "";
  return `; did you mean "${nearest.name}"?`;
}
