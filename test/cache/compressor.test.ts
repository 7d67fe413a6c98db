import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { Compressor } from "../../src/cache/compression.ts";

const MIB = 2 ** 20;
const GZIP = 1;

function bodyOf(bytes: number, text: string): Buffer {
  return Buffer.alloc(bytes, text);
}

test("bodies wait within a bound in bytes, and what waits is compressed in order", async () => {
  const compressor = new Compressor();
  const made: Buffer[] = [];
  const compress = (body: Buffer) => compressor.compress(body, GZIP, (compressed) => made.push(gunzipSync(compressed)));
  // Two run at once, three of five MiB may wait.
  for (const text of ["a", "b", "c", "d", "e", "too much"]) compress(bodyOf(5 * MIB, text));
  compress(bodyOf(MIB / 2, "small"));
  await compressor.settled();
  expect(made.map((body) => body.toString("latin1", 0, 1)).sort()).toEqual(["a", "b", "c", "d", "e", "s"]);
  // There is room again.
  compress(bodyOf(5 * MIB, "f"));
  await compressor.settled();
  expect(made).toHaveLength(7);
});

test("a body larger than the bound is compressed when nothing waits", async () => {
  const compressor = new Compressor();
  let size = 0;
  compressor.compress(bodyOf(20 * MIB, "a"), GZIP, (compressed) => (size = gunzipSync(compressed).length));
  await compressor.settled();
  expect(size).toBe(20 * MIB);
});
