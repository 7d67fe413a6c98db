import { describe, expect, test } from "vitest";
import { NOTHING_KEPT } from "../support/gateway.ts";
import { contractId } from "../../src/sandbox/contracts.ts";
import type { Instrument } from "../../src/sandbox/instrument.ts";
import { errorOf, type SentRequest, send } from "../support/send.ts";
import { shareOf } from "../support/thorough.ts";
import { ADMINS, REGISTRY_NAMES, STRANGER, useThreeRegistries } from "../support/three-registries.ts";

/** Ids as people give them; each must reach its registry as it is. */
const HOSTILE_IDS = [
  "Amulet/USD",
  "a..b",
  "..a/b..",
  "x/y",
  "a b",
  "a+b",
  "a?pageSize=1",
  "a#b",
  "a&b=c;d",
  "a\\b",
  "%41",
  "%2e.a",
  "€",
  "日本",
  "👛",
  "é",
  "é",
  "'\"<>",
  "a:b@c",
  "...",
  "info",
  "instruments",
  "constructor",
  "__proto__",
  "x".repeat(1_000),
] as const;

const INSTRUMENTS: readonly Instrument[] = HOSTILE_IDS.map((id) => ({
  id,
  name: id,
  symbol: "X",
  decimals: 10,
  supportedApis: {},
}));

// Nothing is kept, so that every good request shows where it went.
const running = useThreeRegistries({
  keys: NOTHING_KEPT,
  registry: { instruments: INSTRUMENTS },
});

const PREFIX = "/api/token-standard/v0/registrars";
const HEADER = "x-instrument-admin";

const METADATA = {
  info: "/registry/metadata/v1/info",
  instruments: "/registry/metadata/v1/instruments",
  instrument: "/registry/metadata/v1/instruments/a%20b",
};

const CONTEXTS = {
  transfer_accept: "/registry/transfer-instruction/v1/{id}/choice-contexts/accept",
  allocation_cancel: "/registry/allocations/v1/{id}/choice-contexts/cancel",
};

/** Sends it; returns the status, and the one registry that got it with its operation and URL. */
async function outcome(request: SentRequest): Promise<{ status: number; calls: string[]; urls: string[] }> {
  running().clearCalls();
  const answer = await send(running().url, request);
  if (answer.status >= 400 && running().called().length === 0) {
    expect(errorOf(answer)).toMatch(/^registry-gateway: /);
    expect(Object.keys(JSON.parse(answer.text) as object)).toEqual(["error", "code", "requestId"]);
  }
  const urls = REGISTRY_NAMES.flatMap((name) => running().registries[name].calls.recent.map(({ url }) => url));
  return { status: answer.status, calls: running().called(), urls };
}

describe.each(REGISTRY_NAMES.map((name, place) => ({ name, place })))(
  "a request for $name reaches it and nobody else",
  ({ name, place }) => {
    const shareOfPlaces = <T>(cases: readonly T[]) => shareOf(cases, place, REGISTRY_NAMES.length);

    test.each(shareOfPlaces(HOSTILE_IDS))("the instrument %j, as one path segment", async (id) => {
      const segment = encodeURIComponent(id);
      for (const spelling of [segment, segment.replaceAll(/%../g, (code) => code.toLowerCase())]) {
        const got = await outcome({ path: `${PREFIX}/${name}/registry/metadata/v1/instruments/${spelling}` });
        expect(got).toEqual({
          status: 200,
          calls: [`${name} instrument`],
          urls: [`/registry/metadata/v1/instruments/${segment}`],
        });
      }
    });

    test.each(shareOfPlaces(HOSTILE_IDS))("the contract %j, as one path segment", async (id) => {
      const segment = encodeURIComponent(id);
      const got = await outcome({
        path: `${PREFIX}/${name}/registry/allocations/v1/${segment}/choice-contexts/cancel`,
        body: "{}",
      });
      expect(got).toEqual({
        status: 404,
        calls: [`${name} allocation_cancel`],
        urls: [`/registry/allocations/v1/${segment}/choice-contexts/cancel`],
      });
    });

    test.each([
      ["a slash at the end", "/"],
      ["/registry at the end", "/registry"],
      ["/registry/ at the end", "/registry/"],
      ["//registry", "//registry"],
    ])("a base URL with %s", async (_what, end) => {
      const got = await outcome({ path: `${PREFIX}/${name}${end}${METADATA.info}` });
      expect(got).toEqual({ status: 200, calls: [`${name} info`], urls: [METADATA.info] });
    });

    test("an absolute URL as request target, whatever its authority", async () => {
      for (const authority of ["elsewhere.example", "elsewhere.example:1", "[::1]:9"]) {
        const got = await outcome({ path: `http://${authority}${PREFIX}/${name}${METADATA.info}` });
        expect(got).toEqual({ status: 200, calls: [`${name} info`], urls: [METADATA.info] });
      }
    });
  },
);

const A = ADMINS.amulet;
const B = ADMINS.bonds;

describe("a body whose admin parsers could read differently goes nowhere", () => {
  const bodies: readonly [string, string][] = [
    [
      "choiceArguments twice",
      `{"choiceArguments":{"expectedAdmin":"${A}"},"choiceArguments":{"expectedAdmin":"${B}"}}`,
    ],
    ["choiceArguments twice, one escaped", `{"choiceArguments":{},"choice\\u0041rguments":{"expectedAdmin":"${B}"}}`],
    ["choiceArguments twice, the same", `{"choiceArguments":{},"choiceArguments":{}}`],
    ["expectedAdmin twice", `{"choiceArguments":{"expectedAdmin":"${A}","expectedAdmin":"${B}"}}`],
    ["expectedAdmin twice, the same", `{"choiceArguments":{"expectedAdmin":"${A}","expectedAdmin":"${A}"}}`],
    ["expectedAdmin twice, one escaped", `{"choiceArguments":{"expectedAdmin":"${A}","\\u0065xpectedAdmin":"${B}"}}`],
    ["expectedAdmin twice, one null", `{"choiceArguments":{"expectedAdmin":null,"expectedAdmin":"${B}"}}`],
    ["transfer twice", `{"choiceArguments":{"transfer":{},"transfer":{"instrumentId":{"admin":"${B}"}}}}`],
    [
      "instrumentId twice",
      `{"choiceArguments":{"transfer":{"instrumentId":{"admin":"${A}"},"instrumentId":{"admin":"${B}"}}}}`,
    ],
    ["admin twice", `{"choiceArguments":{"transfer":{"instrumentId":{"admin":"${A}","admin":"${B}"}}}}`],
    [
      "admin twice, one escaped",
      `{"choiceArguments":{"transfer":{"instrumentId":{"\\u0061dmin":"${A}","admin":"${B}"}}}}`,
    ],
    ["an admin that is a number", `{"choiceArguments":{"expectedAdmin":1220}}`],
    ["an admin that is a list", `{"choiceArguments":{"expectedAdmin":["${A}"]}}`],
    ["an admin that is an object", `{"choiceArguments":{"transfer":{"instrumentId":{"admin":{"id":"${A}"}}}}}`],
    ["ExpectedAdmin beside it", `{"choiceArguments":{"expectedAdmin":"${A}","ExpectedAdmin":"${B}"}}`],
    ["expectedadmin alone", `{"choiceArguments":{"expectedadmin":"${B}"}}`],
    ["ChoiceArguments beside it", `{"choiceArguments":{"expectedAdmin":"${A}"},"ChoiceArguments":{}}`],
    ["an escaped Admin", `{"choiceArguments":{"transfer":{"instrumentId":{"\\u0041dmin":"${B}"}}}}`],
    ["a transfer that is a list", `{"choiceArguments":{"transfer":[{"instrumentId":{"admin":"${A}"}}]}}`],
    ["a transfer that is text", `{"choiceArguments":{"transfer":"${A}","expectedAdmin":"${A}"}}`],
    ["an instrumentId that is a list", `{"choiceArguments":{"transfer":{"instrumentId":["${A}","X"]}}}`],
    ["an instrumentId that is text", `{"choiceArguments":{"transfer":{"instrumentId":"${A}"}}}`],
    ["a key __proto__", `{"choiceArguments":{"__proto__":{"expectedAdmin":"${B}"},"expectedAdmin":"${A}"}}`],
    ["a comment", `{"choiceArguments":{"expectedAdmin":"${A}"/*"expectedAdmin":"${B}"*/}}`],
    ["two texts", `{"choiceArguments":{"expectedAdmin":"${A}"}}{"choiceArguments":{"expectedAdmin":"${B}"}}`],
  ];

  test.each(bodies)("%s", async (_what, body) => {
    const endpoints = [
      "/registry/transfer-instruction/v1/transfer-factory",
      "/registry/transfer-instruction/v2/transfer-factory",
    ];
    for (const endpoint of endpoints) {
      for (const path of [endpoint, `${PREFIX}/amulet${endpoint}`, `${PREFIX}/${encodeURIComponent(A)}${endpoint}`]) {
        expect(await outcome({ path, body })).toMatchObject({ status: 400, calls: [] });
      }
    }
  });

  test("a body of version 2 that is not sent as JSON in UTF-8 goes nowhere, for its admin could be another one", async () => {
    const path = `${PREFIX}/amulet/registry/transfer-instruction/v2/transfer-factory`;
    for (const type of ["application/json; charset=utf-7", "text/plain", "application/x-www-form-urlencoded"]) {
      const body = `{"choiceArguments":{"expectedAdmin":"${A}"}}`;
      const got = await outcome({ path, headers: { "content-type": type }, body });
      expect(got).toMatchObject({ status: 415, calls: [] });
    }
  });

  test("keys given twice elsewhere are the registry's business", async () => {
    const body = `{"x":1,"x":2,"choiceArguments":{"expectedAdmin":"${A}","more":{"admin":1,"admin":2}}}`;
    const got = await outcome({ path: "/registry/transfer-instruction/v1/transfer-factory", body });
    expect(got).toMatchObject({ status: 200, calls: ["amulet transfer_factory"] });
  });
});

describe("a request that names no registry, or none clearly, goes nowhere:", () => {
  const info = METADATA.info;
  const cancel = CONTEXTS.allocation_cancel.replace("{id}", contractId(A, "x"));
  const factory = "/registry/transfer-instruction/v1/transfer-factory";
  const rows: readonly [string, SentRequest, number][] = [
    ["an unknown party", { path: `${PREFIX}/${encodeURIComponent(STRANGER)}${info}` }, 404],
    ["an unknown alias", { path: `${PREFIX}/nobody${info}` }, 404],
    ["an unknown party in the header", { path: info, headers: { [HEADER]: STRANGER } }, 404],
    ["an unknown alias in the header", { path: info, headers: { [HEADER]: "nobody" } }, 404],
    ["an unknown party in a body", { path: factory, body: `{"choiceArguments":{"expectedAdmin":"${STRANGER}"}}` }, 404],
    ["an alias in a body", { path: factory, body: '{"choiceArguments":{"expectedAdmin":"amulet"}}' }, 404],
    [
      "an alias in a body under its own path",
      { path: `${PREFIX}/amulet${factory}`, body: '{"choiceArguments":{"expectedAdmin":"amulet"}}' },
      400,
    ],
    ["an empty admin in a body", { path: factory, body: '{"choiceArguments":{"expectedAdmin":""}}' }, 404],
    ["an admin in other letters", { path: `${PREFIX}/${A.toUpperCase()}${info}` }, 404],
    ["an alias in other letters", { path: `${PREFIX}/AMULET${info}` }, 404],
    ["an admin with a space behind", { path: `${PREFIX}/${A}%20${info}` }, 404],
    ["an admin cut short", { path: `${PREFIX}/${A.slice(0, -1)}${info}` }, 404],
    ["two admins in one segment", { path: `${PREFIX}/${A},${B}${info}` }, 404],
    ["an admin encoded twice", { path: `${PREFIX}/${A.replace("::", "%253A%253A")}${info}` }, 404],
    ["a slash in the admin", { path: `${PREFIX}/amulet%2Fregistry${info}` }, 404],
    ["another registry behind the first", { path: `${PREFIX}/amulet/bonds${info}` }, 404],
    ["the prefix twice", { path: `${PREFIX}/amulet${PREFIX}/bonds${info}` }, 404],
    ["no admin", { path: `${PREFIX}/${info}` }, 400],
    ["an admin that is ..", { path: `${PREFIX}/..${info}` }, 400],
    ["an admin that is %2e%2e", { path: `${PREFIX}/%2e%2e${info}` }, 400],
    ["an admin that is .", { path: `${PREFIX}/.${info}` }, 400],
    ["a dot segment out of one registry into another", { path: `${PREFIX}/amulet/../bonds${info}` }, 404],
    ["a dot segment below registry", { path: `${PREFIX}/amulet/registry/../../bonds${info}` }, 400],
    ["an encoded dot segment below registry", { path: `${PREFIX}/amulet/registry/%2e%2e/bonds${info}` }, 400],
    ["a NUL in the admin", { path: `${PREFIX}/amulet%00${info}` }, 400],
    ["a line break in the admin", { path: `${PREFIX}/amulet%0d%0a${info}` }, 400],
    ["bytes that are no UTF-8", { path: `${PREFIX}/amulet%ff${info}` }, 400],
    ["half an escape", { path: `${PREFIX}/amulet%2${info}` }, 400],
    ["the header twice, the same", { path: info, headers: { [HEADER]: [A, A] } }, 400],
    ["the header twice, different", { path: info, headers: { [HEADER]: [A, B] } }, 400],
    ["the header twice below a path", { path: `${PREFIX}/amulet${info}`, headers: { [HEADER]: [A, A] } }, 400],
    ["the header twice on a POST", { path: cancel, headers: { [HEADER]: [A, B] }, body: "{}" }, 400],
    ["the header twice on a draft", { path: "/registry/drafts/v1/x", headers: { [HEADER]: [A, B] } }, 400],
    ["the header empty", { path: info, headers: { [HEADER]: "" } }, 400],
    ["two admins in one header", { path: info, headers: { [HEADER]: `${A}, ${B}` } }, 404],
    ["the header against the path", { path: `${PREFIX}/amulet${info}`, headers: { [HEADER]: B } }, 400],
    ["an alias against an alias", { path: `${PREFIX}/amulet${info}`, headers: { [HEADER]: "bonds" } }, 400],
    [
      "the header against the path of a draft",
      { path: `${PREFIX}/amulet/registry/drafts/v1/x`, headers: { [HEADER]: B } },
      400,
    ],
    ["a context without an admin", { path: cancel, body: "{}" }, 400],
    ["a context whose body names one", { path: cancel, body: `{"choiceArguments":{"expectedAdmin":"${A}"}}` }, 400],
    ["a factory without an admin", { path: factory, body: '{"choiceArguments":{}}' }, 400],
    ["a draft without an admin", { path: "/registry/drafts/v1/x" }, 400],
    ["a draft of an unknown admin", { path: `${PREFIX}/nobody/registry/drafts/v1/x` }, 404],
    ["an id that is ..", { path: `${PREFIX}/amulet/registry/metadata/v1/instruments/..` }, 400],
    ["an id that climbs", { path: `${PREFIX}/amulet/registry/metadata/v1/instruments/..%2F..%2F..%2Fadmin%2Fx` }, 400],
    ["an id that climbs, by the header", { path: `${METADATA.instruments}/..%2Fx`, headers: { [HEADER]: A } }, 400],
    [
      "a contract id that climbs",
      { path: `${PREFIX}/amulet${CONTEXTS.transfer_accept.replace("{id}", "..%2F..%2Fx")}`, body: "{}" },
      400,
    ],
    [
      "a contract id that climbs, of version 2",
      { path: "/registry/allocations/v2/x%252F..%252F/choice-contexts/cancel", headers: { [HEADER]: A }, body: "{}" },
      400,
    ],
    [
      "a draft that climbs",
      { path: `${PREFIX}/${A}/registry/drafts/v1/x%2F..%2F..%2Fadmin%2Fsecret`, body: "{}" },
      400,
    ],
    [
      "a factory in one segment",
      {
        path: `${PREFIX}/amulet/registry/transfer-instruction%2Fv2%2Ftransfer-factory`,
        body: `{"choiceArguments":{"expectedAdmin":"${B}"}}`,
      },
      404,
    ],
    ["an id that is %2E%2e", { path: `${PREFIX}/amulet/registry/metadata/v1/instruments/%2E%2e` }, 400],
    ["an id that is .", { path: `${PREFIX}/amulet/registry/metadata/v1/instruments/%2e` }, 400],
    ["an empty id", { path: `${PREFIX}/amulet/registry/metadata/v1/instruments/` }, 400],
    [
      "an empty contract id",
      { path: `${PREFIX}/amulet/registry/allocations/v1//choice-contexts/cancel`, body: "{}" },
      400,
    ],
    ["a NUL as id", { path: `${PREFIX}/amulet/registry/metadata/v1/instruments/%00` }, 400],
    ["a line break in an id", { path: `${PREFIX}/amulet/registry/metadata/v1/instruments/a%0d%0ab` }, 400],
    ["a raw slash in an id", { path: `${PREFIX}/amulet/registry/metadata/v1/instruments/Amulet/USD` }, 404],
    [
      "a raw slash in a contract id",
      { path: `${PREFIX}/amulet/registry/allocations/v1/a/b/choice-contexts/cancel`, body: "{}" },
      404,
    ],
    ["an overlong slash in an id", { path: `${PREFIX}/amulet/registry/metadata/v1/instruments/a%C0%AFb` }, 400],
    ["a surrogate in an id", { path: `${PREFIX}/amulet/registry/metadata/v1/instruments/%ED%A0%80` }, 400],
    ["no registry in the path", { path: `${PREFIX}/amulet/metadata/v1/info` }, 404],
    ["a path outside", { path: "/metadata/v1/info" }, 404],
    ["a POST to the root", { path: "/", body: "{}" }, 405],
    ["a prefix in other letters", { path: `${PREFIX.toUpperCase()}/amulet${info}` }, 404],
    ["an encoded prefix", { path: `${PREFIX.replace("token", "%74oken")}/amulet${info}` }, 404],
    ["another method on info", { path: `${PREFIX}/amulet${info}`, body: "{}" }, 405],
    ["another method on a context", { path: `${PREFIX}/amulet${cancel}` }, 405],
    ["another method on a factory", { path: `${PREFIX}/amulet${factory}`, method: "PUT" }, 405],
    ["PATCH on a draft", { path: `${PREFIX}/amulet/registry/drafts/v1/x`, method: "PATCH" }, 405],
    ["another scheme as target", { path: `ftp://x${PREFIX}/amulet${info}` }, 400],
  ];

  test.each(rows)("%s", async (_what, request, status) => {
    expect(await outcome(request)).toMatchObject({ status, calls: [] });
  });
});
