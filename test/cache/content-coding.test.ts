import { describe, expect, test } from "vitest";
import { CodingChoice, isCompressible, prefersGzip } from "../../src/cache/compression.ts";

describe("gzip is chosen", () => {
  test.for([
    ["gzip", true],
    ["gzip, deflate, br", true],
    ["GZIP", true],
    ["x-gzip", true],
    ["*", true],
    ["gzip;q=0.5", true],
    ["gzip;q=0.001", true],
    ["deflate, gzip;q=1.0, *;q=0.5", true],
    ["gzip;q=0.5, identity;q=0.5", true],
    ["identity;q=0, gzip", true],
    ["identity;q=0, *", true],
    ["gzip;q=0", false],
    ["gzip;q=0.000", false],
    ["*;q=0", false],
    ["gzip;q=0, *", false],
    ["identity", false],
    ["deflate, br", false],
    ["", false],
    ["gzip;q=0.4, identity", false],
    ["identity;q=0.8, *;q=0.1", false],
    ["gzipped", false],
  ] as const)("%j: %s", ([acceptEncoding, gzip]) => {
    expect(prefersGzip(acceptEncoding)).toBe(gzip);
    const choice = new CodingChoice();
    expect([choice.acceptsGzip(acceptEncoding), choice.acceptsGzip(acceptEncoding)]).toEqual([gzip, gzip]);
  });
});

describe("a gzip variant is made", () => {
  const big = Buffer.alloc(1024, "a");
  test.for([
    ["of 1 KiB", 200, [], big, true],
    ["not of less", 200, [], big.subarray(1), false],
    ["not of errors", 404, [], big, false],
    ["not of what is coded already", 200, ["content-encoding", "br"], big, false],
    ["not under no-transform", 200, ["cache-control", "max-age=5, No-Transform"], big, false],
    ["under other directives", 200, ["cache-control", "max-age=5"], big, true],
  ] as const)("%s", ([, status, fields, body, made]) => {
    expect(isCompressible(status, fields, body)).toBe(made);
  });
});
