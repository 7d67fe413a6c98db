import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chainOf, type MetadataAddress, metadataKey, metadataPath } from "../../src/registry/metadata-key.ts";

const ADMIN = "a::1220";

const INSTRUMENTS = "/registry/metadata/v1/instruments";

describe("the path of a resource", () => {
  test.each<[MetadataAddress, string]>([
    [{ operation: "info" }, "/registry/metadata/v1/info"],
    [{ operation: "instrument", id: "Amulet" }, `${INSTRUMENTS}/Amulet`],
    [{ operation: "instrument", id: "../info" }, `${INSTRUMENTS}/..%2Finfo`],
    [{ operation: "instrument", id: "a b?c#d%2F€" }, `${INSTRUMENTS}/a%20b%3Fc%23d%252F%E2%82%AC`],
    [{ operation: "instruments" }, INSTRUMENTS],
    [{ operation: "instruments", pageSize: 5 }, `${INSTRUMENTS}?pageSize=5`],
    [{ operation: "instruments", pageToken: "a%2Fb" }, `${INSTRUMENTS}?pageToken=a%2Fb`],
    [{ operation: "instruments", pageSize: 5, pageToken: "a+b" }, `${INSTRUMENTS}?pageSize=5&pageToken=a+b`],
    [{ operation: "instruments", pageToken: "" }, `${INSTRUMENTS}?pageToken=`],
  ])("%j: %s", (address, path) => {
    expect(metadataPath(address)).toBe(path);
  });
});

describe("the key of a resource", () => {
  const encoded = fc
    .string({ unit: "grapheme", maxLength: 12 })
    .filter((text) => text.isWellFormed())
    .map(encodeURIComponent);
  const address: fc.Arbitrary<MetadataAddress> = fc.oneof(
    fc.constant<MetadataAddress>({ operation: "info" }),
    fc.record({ operation: fc.constant("instrument" as const), id: fc.string({ minLength: 1, maxLength: 12 }) }),
    fc.record({
      operation: fc.constant("instruments" as const),
      pageSize: fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
      pageToken: fc.option(encoded, { nil: undefined }),
    }),
  );

  test("differs where the resource does, and only there", () => {
    fc.assert(
      fc.property(address, address, (one, other) => {
        fc.pre(one.id?.isWellFormed() !== false && other.id?.isWellFormed() !== false);
        const isSame = metadataPath(one) === metadataPath(other);
        expect(metadataKey(ADMIN, one).id === metadataKey(ADMIN, other).id).toBe(isSame);
      }),
      {
        numRuns: 1_000,
        examples: [
          [
            { operation: "instruments", pageSize: 5, pageToken: "" },
            { operation: "instruments", pageSize: 5 },
          ],
          [
            { operation: "instrument", id: "5 x" },
            { operation: "instruments", pageSize: 5, pageToken: "x" },
          ],
        ],
      },
    );
  });

  test("belongs to the partition of the admin, and to the purge scopes of its kind", () => {
    expect(metadataKey(ADMIN, { operation: "info" })).toMatchObject({ partition: ADMIN, scopes: ["all", "info"] });
    expect(metadataKey(ADMIN, { operation: "instrument", id: "A" }).scopes).toEqual(["all", "list", "instrument:A"]);
    expect(metadataKey(ADMIN, { operation: "instruments" }).scopes).toEqual(["all", "list", "pages"]);
  });

  test("of a page behind a token depends on the page that issued it; a first page on none", () => {
    expect(metadataKey(ADMIN, { operation: "instruments", pageSize: 5 }).chain).toBeUndefined();
    expect(metadataKey(ADMIN, { operation: "instruments", pageSize: 5, pageToken: "t" }).chain).toBe(
      chainOf({ pageSize: 5 }, "t"),
    );
    expect(chainOf({ pageSize: 5 }, "t")).not.toBe(chainOf({ pageSize: 6 }, "t"));
    expect(chainOf({ pageSize: undefined }, "t")).not.toBe(chainOf({ pageSize: 5 }, "t"));
    // A size that is asked for by default may be lowered, a client's may not.
    expect(chainOf({ defaultPageSize: 5 }, "t")).not.toBe(chainOf({ pageSize: 5 }, "t"));
    expect(chainOf({ defaultPageSize: 5 }, "t")).not.toBe(chainOf({}, "t"));
    // Thousands of them are remembered.
    expect(chainOf({ pageSize: 5 }, "t".repeat(8_000)).length).toBeLessThan(100);
    expect(chainOf({ pageSize: 5 }, "t".repeat(8_000))).not.toBe(chainOf({ pageSize: 5 }, "t".repeat(8_001)));
    // Servers differ about what `+` means; a token issued with a space comes back either way.
    expect(chainOf({ pageSize: 5 }, "a+b")).toBe(chainOf({ pageSize: 5 }, "a%20b"));
  });
});
