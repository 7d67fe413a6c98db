import { expect, test } from "vitest";
import type { CacheAnswer } from "../../src/cache/resource.ts";
import { failedListing } from "../../src/registry/listing.ts";

function answer(status: number, retryAfter: string): CacheAnswer {
  return {
    status,
    fields: ["retry-after", retryAfter],
    body: undefined,
    outcome: "miss",
    tier: "upstream",
    age: 0,
    ttl: undefined,
  };
}

test.each([
  ["7", 7],
  ["0", 1],
  ["1e308", 1],
  ["0x10", 1],
  ["-5", 1],
  ["9".repeat(400), 1],
  ["Fri, 31 Dec 9999 23:59:59 GMT", 1],
])("a listing that is refused with Retry-After: %s is to be tried again in %d s", (asked, seconds) => {
  for (const status of [429, 503]) expect(failedListing("a", answer(status, asked)).retryAfter).toBe(seconds);
});
