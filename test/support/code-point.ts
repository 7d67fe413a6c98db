import * as fc from "fast-check";

const SURROGATES_FROM = 0xd800;
const SURROGATES = 0x800;

/** Any code point as a text, for `fc.string`: what its unit "binary" draws, without its table of all million of them. */
export const CODE_POINT = fc.nat({ max: 0x10ffff - SURROGATES }).map(
  (at) => String.fromCodePoint(at < SURROGATES_FROM ? at : at + SURROGATES),
  (text) => {
    const point = String(text).codePointAt(0)!;
    return point < SURROGATES_FROM ? point : point - SURROGATES;
  },
);
