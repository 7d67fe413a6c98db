/** Longer words than any key or alias are not worth the arithmetic. */
const MAX_LENGTH = 64;

/** More than so many edits away, a word is another word. */
const MAX_EDITS = 6;

/** More than can be counted here. */
const MANY = 255;

/**
 * How many single-character edits turn `a` into `b` (Levenshtein), if no more than `most`; else {@link MANY}. Only the
 * diagonals that can matter are worked out, so that a thousand aliases cost a client's typing error a millisecond or two.
 */
function editsWithin(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return MANY;
  let previous = Uint8Array.from({ length: b.length + 1 }, (_, j) => j);
  let row = new Uint8Array(b.length + 1);
  for (let i = 1; i <= a.length; i++) {
    const start = Math.max(1, i - most);
    const end = Math.min(b.length, i + most);
    row[start - 1] = start === 1 ? i : MANY;
    let least = row[start - 1]!;
    for (let j = start; j <= end; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1;
      row[j] = Math.min(previous[j]! + 1, row[j - 1]! + 1, previous[j - 1]! + change, MANY);
      least = Math.min(least, row[j]!);
    }
    if (least > most) return MANY;
    if (end < b.length) row[end + 1] = MANY;
    [previous, row] = [row, previous];
  }
  return previous[b.length]! <= most ? previous[b.length]! : MANY;
}

/** `; did you mean "…"?` with the known word nearest to `word`, or nothing when none is near. */
export function suggest(word: string, known: readonly string[]): string {
  if (word.length > 2 * MAX_LENGTH) return "";
  const given = word.slice(0, MAX_LENGTH).toLowerCase();
  let nearest: string | undefined;
  let least = Math.min(Math.max(1, Math.floor(given.length / 3)), MAX_EDITS);
  for (const name of known) {
    const edits = name.length > MAX_LENGTH ? MANY : editsWithin(given, name.toLowerCase(), least);
    if (edits === MANY) continue;
    nearest = name;
    // From now on only what is nearer counts.
    least = edits - 1;
    if (least < 0) break;
  }
  return nearest === undefined ? "" : `; did you mean "${nearest}"?`;
}
