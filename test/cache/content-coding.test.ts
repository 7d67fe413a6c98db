import { describe, expect, test } from "vitest";
import { type Coding, CodingChoice, CODINGS, isCompressible, preferredCodings } from "../../src/cache/compression.ts";

describe("codings are preferred to identity", () => {
  test.for([
    ["gzip", ["gzip"]],
    ["gzip, deflate, br", ["br", "gzip"]],
    ["gzip, deflate, br, zstd", ["zstd", "br", "gzip"]],
    ["zstd;q=0.5, gzip;q=0.9, br;q=0.9", ["br", "gzip", "zstd"]],
    ["GZIP", ["gzip"]],
    ["x-gzip", ["gzip"]],
    ["*", ["zstd", "br", "gzip"]],
    ["br, *;q=0", ["br"]],
    ["br;q=0, *", ["zstd", "gzip"]],
    ["gzip;q=0.5", ["gzip"]],
    ["gzip;q=0.001", ["gzip"]],
    ["deflate, gzip;q=1.0, *;q=0.5", ["gzip", "zstd", "br"]],
    ["gzip;q=0.5, identity;q=0.5", ["gzip"]],
    ["identity;q=0, gzip", ["gzip"]],
    ["identity;q=0, *", ["zstd", "br", "gzip"]],
    ["gzip;q=0", []],
    ["gzip;q=0.000", []],
    ["*;q=0", []],
    ["gzip;q=0, *", ["zstd", "br"]],
    ["identity", []],
    ["deflate, compress", []],
    ["", []],
    ["gzip;q=0.4, identity", []],
    ["br;q=0.9, gzip;q=0.4, identity;q=0.5", ["br"]],
    ["identity;q=0.8, *;q=0.1", []],
    ["gzipped, brotli, zst", []],
  ] as const)("%j: %j", ([acceptEncoding, names]) => {
    const named = (codings: readonly Coding[]) => codings.map((coding) => CODINGS[coding]);
    expect(named(preferredCodings(acceptEncoding))).toEqual(names);
    const choice = new CodingChoice();
    for (let i = 0; i < 2; i += 1) expect(named(choice.preferred(acceptEncoding))).toEqual(names);
  });
});

describe("a coded variant is made", () => {
  const big = Buffer.alloc(1024, "a");
  test.for([
    ["of 1 KiB", 200, [], big, true],
    ["not of less", 200, [], big.subarray(1), false],
    ["not of errors", 404, [], big, false],
    ["not of what is coded already", 200, ["content-encoding", "br"], big, false],
    ["not under no-transform", 200, ["cache-control", "max-age=5, No-Transform"], big, false],
    ["nor where a targeted field says so", 200, ["cdn-cache-control", "max-age=5, no-transform"], big, false],
    ["nor where our own does", 200, ["registry-gateway-cache-control", "no-transform"], big, false],
    ["under other directives", 200, ["cache-control", "max-age=5"], big, true],
  ] as const)("%s", ([, status, fields, body, made]) => {
    expect(isCompressible(status, fields, body)).toBe(made);
  });
});
