import { BACKSLASH, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE } from "../json.ts";

/** Bytes of heap that the parts of a parsed text take, at the most: see the cases of `test/long/push/weight.test.ts`. */
const CONTAINER = 64;
const KEY = 128;
const VALUE = 16;
const STRING = 16;

/**
 * What parsing a JSON text takes in memory, roughly and at the most: the heap of a thread that runs out while it parses
 * ends the whole process, so this has to be known before. Strings of more than one byte a character count twice.
 */
export function weightOf(body: Uint8Array): number {
  let weight = 2 * body.length;
  let i = 0;
  while (i < body.length) {
    const byte = body[i++]!;
    if (byte === QUOTE) {
      weight += STRING;
      while (i < body.length && body[i] !== QUOTE) i += body[i] === BACKSLASH ? 2 : 1;
      i++;
    } else if (byte === COMMA) weight += VALUE;
    else if (byte === COLON) weight += KEY;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) weight += CONTAINER;
  }
  return weight;
}

const COLON = 0x3a;
