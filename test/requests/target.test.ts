import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { type Addressing, parsePageQuery, parseTarget, type Target } from "../../src/requests/target.ts";
import { ENDPOINTS, endpointOf, endpointPath, isId } from "../../src/spec/endpoints.ts";
import type { Operation } from "../../src/spec/operations.ts";

const PREFIX = "/api/token-standard/v0/registrars";
const PARTY = `DSO::1220${"ab".repeat(32)}`;

const OPERATOR = "/api/utilities/v0/operator";
const ADDRESSING: Addressing = {
  prefix: PREFIX,
  basePaths: new Map([
    ["/api/validator/v0/scan-proxy", "amulet"],
    ["/bonds", "bonds"],
  ]),
  extraPaths: new Map([
    [OPERATOR, ["bonds"]],
    ["/shared", ["amulet", "bonds"]],
  ]),
};

function read(url: string): Target {
  return parseTarget(url, ADDRESSING);
}

function refusal(url: string): [number, string] {
  try {
    read(url);
  } catch (error) {
    if (error instanceof GatewayError) return [error.status, error.message];
    throw error;
  }
  throw new Error(`${url} was not refused`);
}

const endpointTarget = (operation: Exclude<Operation, "pass_through">, rest: Partial<Target> = {}): Target =>
  ({
    kind: "endpoint",
    endpoint: endpointOf(operation),
    id: undefined,
    registry: undefined,
    query: "",
    ...rest,
  }) as Target;

describe("what a URL addresses", () => {
  test.each<[string, Target]>([
    ["/registry/metadata/v1/info", endpointTarget("info")],
    ["/registry/metadata/v1/instruments?pageSize=2", endpointTarget("instruments", { query: "pageSize=2" })],
    [`${PREFIX}/amulet/registry/metadata/v1/info`, endpointTarget("info", { registry: "amulet" })],
    [`${PREFIX}/${PARTY}/registry/metadata/v1/info`, endpointTarget("info", { registry: PARTY })],
    [`${PREFIX}/${encodeURIComponent(PARTY)}/registry/metadata/v1/info`, endpointTarget("info", { registry: PARTY })],
    [
      `${PREFIX}/${PARTY.replace("::", "%3a%3A")}/registry/metadata/v1/info`,
      endpointTarget("info", { registry: PARTY }),
    ],
    ["/registry/metadata/v1/instruments/Amulet%2FUSD", endpointTarget("instrument", { id: "Amulet/USD" })],
    ["/registry/metadata/v1/instruments/Amulet%2fUSD", endpointTarget("instrument", { id: "Amulet/USD" })],
    ["/registry/metadata/v1/instruments/a..b", endpointTarget("instrument", { id: "a..b" })],
    ["/registry/metadata/v1/instruments/...", endpointTarget("instrument", { id: "..." })],
    ["/registry/metadata/v1/instruments/x%2F..y%2F.z%2F..%3F", endpointTarget("instrument", { id: "x/..y/.z/..?" })],
    ["/registry/metadata/v1/instruments/100%25", endpointTarget("instrument", { id: "100%" })],
    ["/registry/metadata/v1/instruments/%2541", endpointTarget("instrument", { id: "%41" })],
    ["/registry/metadata/v1/instruments/a%20b", endpointTarget("instrument", { id: "a b" })],
    ["/registry/metadata/v1/instruments/a+b", endpointTarget("instrument", { id: "a+b" })],
    ["/registry/metadata/v1/instruments/%E2%82%AC", endpointTarget("instrument", { id: "€" })],
    ["/registry/metadata/v1/instruments/%3Fx%3D1%23y", endpointTarget("instrument", { id: "?x=1#y" })],
    ["/registry/metadata/v1/instruments/a%5Cb", endpointTarget("instrument", { id: "a\\b" })],
    ["/registry/metadata/v1/%69nfo", endpointTarget("info")],
    ["//registry/metadata/v1/info", endpointTarget("info")],
    ["/registry//registry/metadata/v1/info", endpointTarget("info")],
    ["/registry/registry/metadata/v1/info", endpointTarget("info")],
    [`${PREFIX}/amulet//registry/metadata/v1/info`, endpointTarget("info", { registry: "amulet" })],
    [`${PREFIX}/amulet/registry/registry/metadata/v1/info`, endpointTarget("info", { registry: "amulet" })],
    [`${PREFIX}/amulet/registry//registry/metadata/v1/info`, endpointTarget("info", { registry: "amulet" })],
    ["http://elsewhere.example/registry/metadata/v1/info", endpointTarget("info")],
    [
      `HTTPS://elsewhere.example:1${PREFIX}/amulet/registry/metadata/v1/info?a=b`,
      endpointTarget("info", { registry: "amulet", query: "a=b" }),
    ],
    ["/registry/transfer-instruction/v2/transfer-factory?x=1", endpointTarget("transfer_factory_v2", { query: "x=1" })],
    ["/registry/metadata/v1/info?", endpointTarget("info")],
    ["/registry/metadata/v1/info?a=/b?c", endpointTarget("info", { query: "a=/b?c" })],
    [
      "/registry/transfer-instruction/v3/transfer-factory?x=1",
      {
        kind: "pass-through",
        segments: ["transfer-instruction", "v3", "transfer-factory"],
        extraPath: undefined,
        registry: undefined,
        query: "x=1",
      },
    ],
    [
      `${PREFIX}/bonds/registry/drafts%2Fv1/x%2Fy`,
      { kind: "pass-through", segments: ["drafts/v1", "x/y"], extraPath: undefined, registry: "bonds", query: "" },
    ],
    ["/api/validator/v0/scan-proxy/registry/metadata/v1/info", endpointTarget("info", { registry: "amulet" })],
    ["/bonds//registry/metadata/v1/info?x", endpointTarget("info", { registry: "bonds", query: "x" })],
    ["/bonds/registry/registry/metadata/v1/info", endpointTarget("info", { registry: "bonds" })],
    ["/bondsy/registry/metadata/v1/info", { kind: "local", path: "/bondsy/registry/metadata/v1/info", query: "" }],
    ["/bonds/metadata/v1/info", { kind: "local", path: "/bonds/metadata/v1/info", query: "" }],
    ["/%62onds/registry/metadata/v1/info", { kind: "local", path: "/%62onds/registry/metadata/v1/info", query: "" }],
    [`${OPERATOR}?a=b`, { kind: "pass-through", segments: [], extraPath: OPERATOR, registry: "bonds", query: "a=b" }],
    [
      `${PREFIX}/${PARTY}${OPERATOR}`,
      { kind: "pass-through", segments: [], extraPath: OPERATOR, registry: PARTY, query: "" },
    ],
    ["/shared", { kind: "pass-through", segments: [], extraPath: "/shared", registry: undefined, query: "" }],
    [`${OPERATOR}/`, { kind: "local", path: `${OPERATOR}/`, query: "" }],
    ["/", { kind: "local", path: "/", query: "" }],
    ["/docs?x", { kind: "local", path: "/docs", query: "x" }],
    ["http://elsewhere.example", { kind: "local", path: "/", query: "" }],
    ["http://elsewhere.example?x", { kind: "local", path: "/", query: "x" }],
    ["/registryy/metadata/v1/info", { kind: "local", path: "/registryy/metadata/v1/info", query: "" }],
    [PREFIX, { kind: "local", path: PREFIX, query: "" }],
  ])("%s", (url, target) => {
    expect(read(url)).toEqual(target);
  });

  test.each<[string, number]>([
    ["/registry/metadata/v1/instruments/", 400],
    ["/registry/metadata//v1/info", 400],
    ["/registry/metadata/v1/info/", 400],
    ["/registry/metadata/v1/instruments/.", 400],
    ["/registry/metadata/v1/instruments/..", 400],
    ["/registry/metadata/v1/instruments/%2e%2e", 400],
    ["/registry/metadata/v1/instruments/%2E", 400],
    ["/registry/../registry/metadata/v1/info", 400],
    ["/registry/metadata/v1/instruments/../info", 400],
    ["/registry/metadata/v1/instruments/%00", 400],
    ["/registry/metadata/v1/instruments/a%0d%0aX-Evil:1", 400],
    ["/registry/metadata/v1/instruments/%7f", 400],
    ["/registry/metadata/v1/instruments/%C2%85", 400],
    ["/registry/metadata/v1/instruments/%", 400],
    ["/registry/metadata/v1/instruments/%zz", 400],
    ["/registry/metadata/v1/instruments/%C0%AF", 400],
    ["/registry/metadata/v1/instruments/%ED%A0%80", 400],
    ["/registry/metadata/v1/instruments/a b", 400],
    ["/registry/metadata/v1/instruments/\u20ac", 400],
    ["/registry/metadata/v1/instruments/a/b", 404],
    ["/registry/allocations/v1/a/b/choice-contexts/cancel", 404],
    [`${PREFIX}//registry/metadata/v1/info`, 400],
    [`${PREFIX}/../registry/metadata/v1/info`, 400],
    [`${PREFIX}/%2e%2e/registry/metadata/v1/info`, 400],
    [`${PREFIX}/%ff/registry/metadata/v1/info`, 400],
    [`${PREFIX}/amulet`, 404],
    [`${PREFIX}/amulet/metadata/v1/info`, 404],
    [`${PREFIX}/amulet/x/registry/metadata/v1/info`, 404],
    [`${PREFIX}/a/b/registry/metadata/v1/info`, 404],
    ["ftp://elsewhere.example/registry/metadata/v1/info", 400],
    ["http:///registry/metadata/v1/info", 400],
    ["http://u@elsewhere.example/registry/metadata/v1/info", 400],
    ["http://[::1/registry/metadata/v1/info", 400],
    ["http://a,b/registry/metadata/v1/info", 400],
    ["registry/metadata/v1/info", 400],
    ["*", 400],
    ["", 400],
    [`${PREFIX}/bonds/registry/metadata%2Fv1%2Finfo`, 404],
    ["/registry/metadata/v1/instruments%2Fx", 404],
    ["/registry/transfer-instruction%2Fv1%2Ftransfer-factory", 404],
    ["/registry/transfer-instruction/v2%5Ctransfer-factory", 404],
    ["/registry/transfer-instruction/v2/transfer-factory%2F", 404],
    ["/registry/transfer-instruction/v2/transfer-%2566actory", 404],
    ["/registry/allocation%25252Fv2/settlement-factory", 404],
    ["/registry/transfer-instruction/v2/transfer-factory;v=1", 404],
    ["/registry/registry/registry/transfer-instruction/v1/transfer-factory", 404],
    ["/registry/%72egistry/transfer-instruction/v1/transfer-factory", 404],
    ["/registry/Registry/transfer-instruction/v1/transfer-factory", 404],
    ["/registry/registry/%2572egistry/drafts/v1/x", 404],
    [`${PREFIX}/bonds/registry/transfer-instruction;x/v2%3By/transfer-factory%253Bv=1`, 404],
  ])("%s is refused: %i", (url, status) => {
    expect(refusal(url)[0]).toBe(status);
  });

  describe("a segment that servers behind the gateway would climb out of the path with is refused", () => {
    const segments = [
      "..%2F..%2F..%2Fadmin%2Fsecret",
      "..%2f",
      "%2F..",
      "x%2F..%2F..%2Fadmin",
      "x%2F.",
      "x%2F.%2Fy",
      "..%5C..%5Cadmin",
      "x%5C..",
      "%252e%252e",
      "%252e%252e%252fadmin",
      "%25252e%25252e%25252fadmin",
      "%2525252e.%2525252fadmin",
      "x%252F%252e%252E",
      "x%2F%2E%2e%255cadmin",
      "..%252F%25zz",
      "..%252F%25ff",
      "..%3Bx%2Fadmin",
      "x%2F..%3B",
    ];
    const paths: readonly ((segment: string) => string)[] = [
      (segment) => `/registry/metadata/v1/instruments/${segment}`,
      (segment) => `/registry/transfer-instruction/v1/${segment}/choice-contexts/accept`,
      (segment) => `/registry/allocations/v1/${segment}/choice-contexts/cancel`,
      (segment) => `/registry/transfer-instruction/v2/${segment}/choice-contexts/accept`,
      (segment) => `/registry/drafts/v1/${segment}`,
      (segment) => `/registry/${segment}`,
      (segment) => `${PREFIX}/amulet/registry/metadata/v1/instruments/${segment}?x=y`,
      (segment) => `${PREFIX}/${encodeURIComponent(PARTY)}/registry/drafts/${segment}/x`,
      (segment) => `${PREFIX}/${segment}/registry/metadata/v1/info`,
      (segment) => `http://elsewhere.example/registry/metadata/v1/instruments/${segment}`,
    ];
    test.each(segments)("%s", (segment) => {
      for (const path of paths) expect([path(segment), ...refusal(path(segment))]).toContain(400);
    });
  });

  test("any id at any endpoint comes out as it went in, on every form of address", () => {
    const admin = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
    const isGood = (text: string): boolean =>
      text.isWellFormed() && !/(^|[/\\])\.{1,2}([/\\;]|$)/.test(text) && !text.includes("%2") && !/\p{Cc}/u.test(text);
    fc.assert(
      fc.property(fc.constantFrom(...ENDPOINTS), admin, admin, fc.boolean(), (endpoint, party, id, isLower) => {
        fc.pre(isGood(party) && isGood(id));
        const url = `${PREFIX}/${encodeURIComponent(party)}${endpointPath(endpoint, id)}`;
        const sent = isLower ? url.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()) : url;
        const hasId = endpoint.segments.some(isId);
        expect(read(sent)).toEqual({
          kind: "endpoint",
          endpoint,
          id: hasId ? id : undefined,
          registry: party,
          query: "",
        });
      }),
      { numRuns: 500 },
    );
  });

  test("no text makes it throw anything but a refusal", () => {
    const alphabet = fc.constantFrom(
      "/",
      "%",
      "2",
      "e",
      "F",
      ".",
      "?",
      "#",
      "registry",
      "metadata",
      "v1",
      PREFIX,
      " ",
      "\u0000",
      "é",
    );
    fc.assert(
      fc.property(fc.array(alphabet, { maxLength: 20 }), (parts) => {
        try {
          read(parts.join(""));
        } catch (error) {
          expect(error).toBeInstanceOf(GatewayError);
          expect([400, 404]).toContain((error as GatewayError).status);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("paging parameters", () => {
  test.each<[string, number | undefined, string | undefined]>([
    ["", undefined, undefined],
    ["pageSize=1", 1, undefined],
    ["pageSize=2147483647", 2_147_483_647, undefined],
    ["pageSize=0010", 10, undefined],
    ["pageSize=%31%30", 10, undefined],
    ["page%53ize=10", 10, undefined],
    ["pageToken=abc", undefined, "abc"],
    ["pageToken=", undefined, ""],
    ["pageToken=a%2fb%3D", undefined, "a%2Fb%3D"],
    ["pageToken=a/b=", undefined, "a%2Fb%3D"],
    ["pageToken=a+b", undefined, "a+b"],
    ["pageToken=a%20b", undefined, "a%20b"],
    ["pageToken=a%2Bb", undefined, "a%2Bb"],
    ["pageToken=%E2%82%AC", undefined, "%E2%82%AC"],
    ["x=1&pageSize=5&y&=&pageToken=t&&", 5, "t"],
    ["PageSize=x&pagesize=0", undefined, undefined],
    ["%ff=1&pageSize=5", 5, undefined],
  ])("%s", (query, pageSize, pageToken) => {
    expect(parsePageQuery(query)).toEqual({ pageSize, pageToken });
  });

  test.each([
    "pageSize=",
    "pageSize",
    "pageSize=0",
    "pageSize=-1",
    "pageSize=+1",
    "pageSize=1.0",
    "pageSize=1e3",
    "pageSize=0x10",
    "pageSize=%201",
    "pageSize=abc",
    "pageSize=2147483648",
    "pageSize=99999999999",
    "pageSize=%ff",
    "pageSize=1&pageSize=1",
    "pageSize=1&page%53ize=2",
    "pageToken=a&pageToken=a",
    "pageToken=%ff",
    "pageToken=%",
  ])("%s is refused", (query) => {
    expect(() => parsePageQuery(query)).toThrow(expect.objectContaining({ status: 400 }));
  });

  test("equal parameters give equal strings, whatever their spelling", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", minLength: 1 }), fc.nat(), (token, salt) => {
        fc.pre(token.isWellFormed() && !token.includes("+"));
        const bytes = [...Buffer.from(token)];
        const spelled = bytes
          .map((byte, i) => {
            const plain = String.fromCharCode(byte);
            const hex = byte.toString(16).padStart(2, "0");
            if (/[A-Za-z0-9]/.test(plain) && (salt >> (i % 20)) % 2 === 0) return plain;
            return `%${(salt >> (i % 7)) % 2 === 0 ? hex : hex.toUpperCase()}`;
          })
          .join("");
        expect(parsePageQuery(`pageToken=${spelled}`).pageToken).toBe(encodeURIComponent(token));
      }),
    );
  });
});
