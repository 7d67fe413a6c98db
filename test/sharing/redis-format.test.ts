import { expect, test } from "vitest";
import { cacheKey, type Entry } from "../../src/sharing/entries.ts";
import { decodeEntry, encodeEntry } from "../../src/sharing/redis/entry-codec.ts";
import { Keys } from "../../src/sharing/redis/keys.ts";

const KEY = cacheKey({ partition: "DSO::1220", id: "info", scopes: ["all", "info"] });

const ENTRY: Entry = {
  status: 200,
  fields: ["date", "Thu, 10 Sep 2026 06:00:00 GMT", "etag", '"a"'],
  body: Buffer.from("{}"),
  madeEtag: false,
  softEpoch: "1.a@2",
  epoch: "generation",
  vary: ["accept"],
  variant: "variant",
  receivedAt: 1_000,
  bornAt: 900,
  madeAt: 950,
  freshUntil: 2_000,
  revalidateUntil: 3_000,
  usableUntil: 4_000,
  staleProhibited: false,
  lifetime: 1_000,
  origins: { lifetime: "cache.ttl", staleWhileRevalidate: "a", staleIfError: "b" },
};

/**
 * Releases at one Redis read each other's entries when the number in the key is the same. Whoever changes the layout
 * below gives it another number in `redis/keys.ts`, and then writes both anew here.
 */
const NUMBER = 6;
const LAYOUT =
  '["DSO::1220","info",200,false,"generation","variant",500,400,450,1500,2500,3500,false,1000,["cache.ttl","a","b"],' +
  '["accept"],["date","Thu, 10 Sep 2026 06:00:00 GMT","etag","\\"a\\""],"1.a@2"]{}';

test("an entry in Redis is laid out as the number in its key says, for releases that run beside each other", () => {
  expect(new Keys("rg:").entry("tag", "id")).toMatch(new RegExp(`^rg:\\{tag\\}:${NUMBER}:`));
  const bytes = encodeEntry(KEY, ENTRY, 500);
  // Before it: the length of the header; and in Redis a checksum or seal, and the instant at which it was sent.
  expect(bytes.toString("utf8", 4)).toBe(LAYOUT);
  expect(bytes.readUInt32BE(0)).toBe(LAYOUT.length - "{}".length);
  expect(decodeEntry(bytes, KEY, 500)).toEqual(ENTRY);
});
