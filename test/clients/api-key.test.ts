import * as fc from "fast-check";
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { createKey, digestOfKey, isKey } from "../../src/clients/api-key.ts";
import { runs } from "../support/thorough.ts";

/** CRC-32 (ISO 3309) bit by bit, apart from the library that the code takes. */
function crc32(text: string): string {
  let crc = 0xffffffff;
  for (const byte of Buffer.from(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ((crc ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0");
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const randomKey = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => `rgk_${Buffer.from(bytes).toString("base64url")}_`)
  .map((text) => text + crc32(text));

test("a key is rgk_, 32 random bytes, and the checksum of that", () => {
  const keys = Array.from({ length: 100 }, createKey);
  for (const key of keys) {
    const [, text, bytes, checksum] = /^(rgk_([A-Za-z0-9_-]{43})_)([0-9a-f]{8})$/.exec(key)!;
    expect(Buffer.from(bytes!, "base64url")).toHaveLength(32);
    expect(checksum).toBe(crc32(text!));
    expect(isKey(key)).toBe(true);
  }
  expect(new Set(keys).size).toBe(100);
});

test("a key that was made elsewhere is whole, checksums with leading zeros included", () => {
  fc.assert(
    fc.property(randomKey, (key) => isKey(key)),
    { numRuns: runs(500, 20_000) },
  );
  let number = 0;
  let key = "";
  while (!/_0[0-9a-f]{7}$/.test(key)) {
    const text = `rgk_${String(number++).padStart(43, "A")}_`;
    key = text + crc32(text);
  }
  expect(isKey(key)).toBe(true);
});

test("a key whose maker summed up only what is before the last _ is whole", () => {
  const text = `rgk_${"A".repeat(43)}`;
  expect(isKey(`${text}_${crc32(text)}`)).toBe(true);
});

test("a key with one character changed, left out, doubled or put elsewhere is refused", () => {
  const place = fc.nat(55);
  fc.assert(
    fc.property(randomKey, place, fc.constantFrom(...base64url.split(""), ".", " ", "\n", "é"), (key, at, other) => {
      fc.pre(key[at] !== other);
      expect(isKey(key.slice(0, at) + other + key.slice(at + 1))).toBe(false);
    }),
    { numRuns: runs(2_000, 100_000) },
  );
  fc.assert(
    fc.property(randomKey, place, (key, at) => {
      expect(isKey(key.slice(0, at) + key.slice(at + 1))).toBe(false);
      expect(isKey(key.slice(0, at) + key[at] + key.slice(at))).toBe(false);
      fc.pre(at < 55 && key[at] !== key[at + 1]);
      expect(isKey(key.slice(0, at) + key[at + 1] + key[at] + key.slice(at + 2))).toBe(false);
    }),
    { numRuns: runs(500, 20_000) },
  );
});

test.each(["", "rgk_", "rgk", "Bearer", `rgk_${"A".repeat(43)}_`, `rgk_${"A".repeat(43)}_00000000`])(
  "%j is no key",
  (text) => expect(isKey(text)).toBe(false),
);

test("a key in other letters, with white space or with something behind it is refused", () => {
  const key = createKey();
  for (const text of [key.toUpperCase(), ` ${key}`, `${key} `, `${key}\n`, `${key}\0`, `${key}${key}`]) {
    expect(isKey(text)).toBe(false);
  }
});

test("the digest is that of the whole key", () => {
  const key = createKey();
  expect(digestOfKey(key)).toBe(`sha256:${createHash("sha256").update(key).digest("hex")}`);
});
