/** A source of numbers in [0, 1). */
export type Random = () => number;

/** mulberry32: a small generator whose sequence depends on nothing but the 32-bit `seed`. Not for secrets. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** FNV-1a over UTF-16 code units: a 32-bit seed from a name, so that the same name always gives the same things. */
export function seedOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** An integer from 0 to `below` - 1. */
export function randomInteger(random: Random, below: number): number {
  return Math.floor(random() * below);
}

/** `digits` (even) lower-case hexadecimal digits. */
export function randomHex(random: Random, digits: number): string {
  return randomBytes(random, digits / 2).toString("hex");
}

/** Base64 text of exactly `length` (a multiple of 4) characters. */
export function randomBase64(random: Random, length: number): string {
  return randomBytes(random, (length / 4) * 3).toString("base64");
}

/** `count` decimal digits, the first not 0. */
export function randomDigits(random: Random, count: number): string {
  const rest = Array.from({ length: count - 1 }, () => randomInteger(random, 10));
  return `${1 + randomInteger(random, 9)}${rest.join("")}`;
}

function randomBytes(random: Random, count: number): Buffer {
  return Buffer.from(Array.from({ length: count }, () => randomInteger(random, 256)));
}
