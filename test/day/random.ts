/** A generator of numbers in [0, 1): the same seed gives the same day to every contestant. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  // Mulberry32.
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A choice among `count` things, of which the n-th is chosen 1/n as often as the first. */
export function zipf(count: number): (random: number) => number {
  let sum = 0;
  const sums = Array.from({ length: count }, (_, i) => (sum += 1 / (i + 1)));
  return (random) => {
    const at = sums.findIndex((each) => each > random * sum);
    return at === -1 ? count - 1 : at;
  };
}
