import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";

/** One zstd frame that asks for a window of 2 to the power of `log` bytes, and holds `hello` (RFC 8878 §3.1.1). */
function zstdFrame(log: number): Buffer {
  return Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3, (5 << 3) | 1, 0, 0, ...Buffer.from("hello")]);
}

const JSON_TEXT = JSON.stringify({ text: "a".repeat(500) });

/** Bodies that are not of the coding they name, or of one that nobody may use: what, its name, the bytes. */
export const BROKEN_CODINGS: readonly (readonly [what: string, coding: string, bytes: Buffer])[] = [
  ["text that calls itself gzip", "gzip", Buffer.from(JSON_TEXT)],
  ["text that calls itself GZIP", "GZIP", Buffer.from(JSON_TEXT)],
  ["text that calls itself br", "br", Buffer.from(JSON_TEXT)],
  ["text that calls itself zstd", "zstd", Buffer.from(JSON_TEXT)],
  ["text that calls itself deflate", "deflate", Buffer.from(JSON_TEXT)],
  ["gzip with garbage behind it", "gzip", Buffer.concat([gzipSync(JSON_TEXT), Buffer.from([0x1f, 0x8b, 1, 2, 3])])],
  [
    "gzip with another that is cut behind it",
    "gzip",
    Buffer.concat([gzipSync(JSON_TEXT), gzipSync("x").subarray(0, 12)]),
  ],
  ["gzip without its end", "gzip", gzipSync(JSON_TEXT).subarray(0, -8)],
  ["gzip with a wrong checksum", "gzip", Buffer.concat([gzipSync(JSON_TEXT).subarray(0, -8), Buffer.alloc(8, 7)])],
  ["deflate without its end", "deflate", deflateSync(JSON_TEXT).subarray(0, -3)],
  ["br without its end", "br", brotliCompressSync(JSON_TEXT).subarray(0, -1)],
  ["zstd without its end", "zstd", zstdCompressSync(JSON_TEXT).subarray(0, -2)],
  ["two frames of zstd", "zstd", Buffer.concat([zstdCompressSync(JSON_TEXT), zstdCompressSync(JSON_TEXT)])],
  ["br with more behind it", "br", Buffer.concat([brotliCompressSync(JSON_TEXT), Buffer.from("more")])],
  ["deflate with more behind it", "deflate", Buffer.concat([deflateSync(JSON_TEXT), Buffer.from("more")])],
  ["zstd with a window of 16 MiB", "zstd", zstdFrame(24)],
  ["zstd with a window of 2 GiB", "zstd", zstdFrame(31)],
  ["gzip in gzip that is text", "gzip, gzip", gzipSync(JSON_TEXT)],
  ["a coding that nobody knows", "compress", Buffer.from(JSON_TEXT)],
  ["four codings", "gzip, gzip, gzip, gzip", Buffer.from(JSON_TEXT)],
];

const ZEROS = Buffer.alloc(12 * 2 ** 20);

const QUICKLY = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };

/** Small bodies that are larger than 8 MiB decoded. */
export const BOMBS: typeof BROKEN_CODINGS = [
  ["a bomb of gzip", "gzip", gzipSync(ZEROS)],
  ["a bomb of br", "br", brotliCompressSync(ZEROS, QUICKLY)],
  ["a bomb of zstd", "zstd", zstdCompressSync(ZEROS)],
  ["a bomb in a bomb", "gzip, gzip", gzipSync(gzipSync(ZEROS))],
];
