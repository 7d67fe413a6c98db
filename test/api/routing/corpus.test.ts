import { describe, expect, test } from "vitest";
import {
  ADMIN_HEADER as HEADER,
  CANCEL,
  choice,
  DRAFT,
  expecting,
  FACTORY,
  FACTORY_V2,
  INFO,
  LIST,
  pathOf,
  PREFIX,
} from "../../support/endpoints.ts";
import { NOTHING_KEPT } from "../../support/gateway.ts";
import { expectOwnError, type Request } from "../../support/http.ts";
import { instrument, partyOf, STRANGER } from "../../support/registry.ts";
import { shareOf } from "../../support/thorough.ts";
import { NAMES, useThree } from "../../support/three.ts";

/** Ids as people give them; each must reach its registry as it is. */
const IDS = [
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
  "'\"<>",
  "a:b@c",
  "...",
  "info",
  "instruments",
  "constructor",
  "__proto__",
  "x".repeat(1_000),
];

// Nothing is kept, so that every good request shows where it went.
const three = useThree({ keys: NOTHING_KEPT, registry: { instruments: IDS.map((id) => instrument(id)) } });

/** Sends it; the status, which registry was asked for what, and by what URLs. */
async function outcome(request: Request): Promise<{ status: number; asked: string[]; urls: string[] }> {
  const { gateway, registries, asked } = three();
  for (const name of NAMES) registries[name].calls.length = 0;
  const answer = await gateway.send(request);
  if (answer.status >= 400 && asked().length === 0) expectOwnError(answer, answer.status);
  // An info is asked for by the gateway itself, too.
  const got = NAMES.flatMap((name) => registries[name].of().map(({ url }) => url));
  return { status: answer.status, asked: asked(), urls: got };
}

describe.each(NAMES.map((name, place) => ({ name, place })))(
  "a request for $name reaches it alone",
  ({ name, place }) => {
    // Each id goes to one of the registries.
    const ids = shareOf(IDS, place, NAMES.length);

    test.each(ids)("the instrument %j, as one path segment", async (id) => {
      const segment = encodeURIComponent(id);
      for (const spelling of [segment, segment.replaceAll(/%../g, (code) => code.toLowerCase())]) {
        expect(await outcome({ path: `${PREFIX}/${name}${LIST}/${spelling}` })).toEqual({
          status: 200,
          asked: [`${name} instrument`],
          urls: [`${LIST}/${segment}`],
        });
      }
    });

    test.each(ids)("the contract %j, as one path segment", async (id) => {
      const path = pathOf("allocation_cancel", id);
      const got = await outcome({ path: PREFIX + "/" + name + path, body: "{}" });
      expect(got).toEqual({ status: 200, asked: [`${name} allocation_cancel`], urls: [path] });
    });

    test.each(["/", "/registry", "/registry/", "//registry", "/registry/registry"])(
      "a base URL with %j at its end",
      async (end) => {
        const path =
          end === "/registry/registry" ? `${PREFIX}/${name}/registry${LIST}` : `${PREFIX}/${name}${end}${LIST}`;
        expect(await outcome({ path })).toEqual({
          status: 200,
          asked: [`${name} instruments`],
          urls: [`${LIST}?pageSize=1000`],
        });
      },
    );

    test.each(["elsewhere.example", "elsewhere.example:1", "[::1]:9"])(
      "an absolute URL as request target, whatever its authority: %s",
      async (authority) => {
        const got = await outcome({ path: `http://${authority}${PREFIX}/${name}${LIST}/a%20b` });
        expect(got).toMatchObject({ status: 200, asked: [`${name} instrument`] });
      },
    );

    test("its party id, raw or percent-encoded in either hex case, or its name, in the path and the header", async () => {
      const admin = partyOf(name);
      const spellings = [
        admin,
        encodeURIComponent(admin),
        admin.replace("::", "%3a%3a"),
        admin.replace("::", ":%3A"),
        name,
      ];
      for (const spelling of spellings) {
        const got = await outcome({ path: `${PREFIX}/${spelling}${CANCEL}`, body: "{}" });
        expect([spelling, got.status, got.asked]).toEqual([spelling, 200, [`${name} allocation_cancel`]]);
      }
      for (const value of [admin, name]) {
        const got = await outcome({ path: CANCEL, body: "{}", headers: { [HEADER]: value } });
        expect([value, got.status, got.asked]).toEqual([value, 200, [`${name} allocation_cancel`]]);
      }
    });
  },
);

const A = partyOf("amulet");
const B = partyOf("bonds");

describe("a body whose admin parsers could read differently goes nowhere:", () => {
  test.each([
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
    ["a transfer that is a list", `{"choiceArguments":{"transfer":[{"instrumentId":{"admin":"${A}"}}]}}`],
    ["a transfer that is text", `{"choiceArguments":{"transfer":"${A}","expectedAdmin":"${A}"}}`],
    ["an instrumentId that is a list", `{"choiceArguments":{"transfer":{"instrumentId":["${A}","X"]}}}`],
    ["an instrumentId that is text", `{"choiceArguments":{"transfer":{"instrumentId":"${A}"}}}`],
    ["a comment", `{"choiceArguments":{"expectedAdmin":"${A}"/*"expectedAdmin":"${B}"*/}}`],
    ["two texts", `${expecting(A)}${expecting(B)}`],
  ])("%s", async (_what, body) => {
    for (const endpoint of [FACTORY, FACTORY_V2]) {
      for (const base of ["", `${PREFIX}/amulet`, `${PREFIX}/${encodeURIComponent(A)}`]) {
        expect(await outcome({ path: base + endpoint, body })).toMatchObject({ status: 400, asked: [] });
      }
    }
  });

  test.each(["application/json; charset=utf-7", "text/plain", "application/x-www-form-urlencoded"])(
    "one of type %s, for its admin could be another one",
    async (type) => {
      const request = { path: PREFIX + "/amulet" + FACTORY_V2, headers: { "content-type": type }, body: expecting(A) };
      expect(await outcome(request)).toMatchObject({ status: 415, asked: [] });
    },
  );
});

test("keys given twice elsewhere, and keys that only look like the standard's, are the registry's business", async () => {
  for (const body of [
    `{"x":1,"x":2,"choiceArguments":{"expectedAdmin":"${A}","more":{"admin":1,"admin":2}}}`,
    `{"choiceArguments":{"expectedAdmin":"${A}","ExpectedAdmin":"${B}"}}`,
    `{"choiceArguments":{"expectedAdmin":"${A}","note":"\\"expectedAdmin\\":\\"${B}\\""}}`,
  ]) {
    expect(await outcome({ path: FACTORY, body })).toMatchObject({ status: 200, asked: ["amulet transfer_factory"] });
  }
});

const under = (path: string): string => `${PREFIX}/amulet${path}`;
const info = INFO;
const ROWS: readonly [string, Request, number | readonly number[]][] = [
  ["an unknown party", { path: `${PREFIX}/${encodeURIComponent(STRANGER)}${info}` }, 404],
  ["an unknown alias", { path: `${PREFIX}/nobody${info}` }, 404],
  ["an unknown party in the header", { path: info, headers: { [HEADER]: STRANGER } }, 404],
  ["an unknown alias in the header", { path: info, headers: { [HEADER]: "nobody" } }, 404],
  ["an unknown party in a body", { path: FACTORY, body: expecting(STRANGER) }, 404],
  ["an alias in a body", { path: FACTORY, body: expecting("amulet") }, 404],
  ["an alias in a body under its own path", { path: under(FACTORY), body: expecting("amulet") }, 400],
  ["another admin in a body", { path: under(FACTORY), body: expecting(B) }, 400],
  ["another admin in a body of version 2", { path: under(FACTORY_V2), body: expecting(B) }, 400],
  [
    "two admins in one body",
    { path: FACTORY, body: choice({ expectedAdmin: A, transfer: { instrumentId: { admin: B } } }) },
    400,
  ],
  ["an empty admin in a body", { path: FACTORY, body: expecting("") }, [400, 404]],
  ["an admin in other letters", { path: `${PREFIX}/${A.toUpperCase()}${info}` }, 404],
  ["an alias in other letters", { path: `${PREFIX}/AMULET${info}` }, 404],
  ["an admin with a space behind", { path: `${PREFIX}/${A}%20${info}` }, 404],
  ["an admin cut short", { path: `${PREFIX}/${A.slice(0, -1)}${info}` }, 404],
  ["two admins in one segment", { path: `${PREFIX}/${A},${B}${info}` }, 404],
  ["an admin encoded twice", { path: `${PREFIX}/${A.replace("::", "%253A%253A")}${info}` }, 404],
  ["a slash in the admin", { path: `${PREFIX}/amulet%2Fregistry${info}` }, 404],
  ["another registry behind the first", { path: `${PREFIX}/amulet/bonds${info}` }, 404],
  ["the prefix twice", { path: `${PREFIX}/amulet${PREFIX}/bonds${info}` }, 404],
  ["no admin", { path: `${PREFIX}/${info}` }, [400, 404]],
  ["an admin that is ..", { path: `${PREFIX}/..${info}` }, 400],
  ["an admin that is %2e%2e", { path: `${PREFIX}/%2e%2e${info}` }, 400],
  ["an admin that is .", { path: `${PREFIX}/.${info}` }, 400],
  ["a dot segment out of one registry into another", { path: `${PREFIX}/amulet/../bonds${info}` }, 400],
  ["a dot segment below registry", { path: under(`/registry/../../bonds${info}`) }, 400],
  ["an encoded dot segment below registry", { path: under(`/registry/%2e%2e/bonds${info}`) }, 400],
  ["a NUL in the admin", { path: `${PREFIX}/amulet%00${info}` }, 400],
  ["a line break in the admin", { path: `${PREFIX}/amulet%0d%0a${info}` }, 400],
  ["bytes that are no UTF-8", { path: `${PREFIX}/amulet%ff${info}` }, 400],
  ["half an escape", { path: `${PREFIX}/amulet%2${info}` }, 400],
  ["the header twice, the same", { path: info, headers: { [HEADER]: [A, A] } }, 400],
  ["the header twice, different", { path: info, headers: { [HEADER]: [A, B] } }, 400],
  ["the header twice below a path", { path: under(info), headers: { [HEADER]: [A, A] } }, 400],
  ["the header twice on a POST", { path: CANCEL, headers: { [HEADER]: [A, B] }, body: "{}" }, 400],
  ["the header twice on a draft", { path: DRAFT, headers: { [HEADER]: [A, B] } }, 400],
  ["two admins in one header", { path: info, headers: { [HEADER]: `${A}, ${B}` } }, [400, 404]],
  ["the header against the path", { path: under(info), headers: { [HEADER]: B } }, 400],
  ["the header against the path of a POST", { path: under(CANCEL), headers: { [HEADER]: B }, body: "{}" }, 400],
  ["the header against the body", { path: FACTORY, headers: { [HEADER]: B }, body: expecting(A) }, 400],
  ["an alias against an alias", { path: under(info), headers: { [HEADER]: "bonds" } }, 400],
  ["the header against the path of a draft", { path: under(DRAFT), headers: { [HEADER]: B } }, 400],
  ["a stranger in the header against the path", { path: under(info), headers: { [HEADER]: STRANGER } }, [400, 404]],
  ["a context without an admin", { path: CANCEL, body: "{}" }, 400],
  ["a context whose body names one", { path: CANCEL, body: expecting(A) }, 400],
  ["a factory without an admin", { path: FACTORY, body: choice() }, 400],
  ["a settlement without an admin", { path: pathOf("settlement_factory_v2"), body: choice() }, 400],
  ["a draft without an admin", { path: DRAFT }, 400],
  ["a draft of an unknown admin", { path: `${PREFIX}/nobody${DRAFT}` }, 404],
  ["an id that is ..", { path: under(`${LIST}/..`) }, 400],
  ["an id that climbs", { path: under(`${LIST}/..%2F..%2F..%2Fadmin%2Fx`) }, 400],
  ["an id that climbs by a backslash", { path: under(`${LIST}/a%5C..%5Cx`) }, 400],
  ["an id that climbs, encoded three times", { path: under(`${LIST}/a%25252F%25252e%25252e`) }, 400],
  ["an id that climbs, by the header", { path: `${LIST}/..%2Fx`, headers: { [HEADER]: A } }, 400],
  ["a contract id that climbs", { path: under(CANCEL.replace("00ab", "..%2F..%2Fx")), body: "{}" }, 400],
  [
    "a contract id that climbs, of version 2",
    { path: pathOf("allocation_cancel_v2").replace("00ab", "x%252F..%252F"), headers: { [HEADER]: A }, body: "{}" },
    400,
  ],
  ["a draft that climbs", { path: under("/registry/drafts/v1/x%2F..%2F..%2Fadmin%2Fsecret"), body: "{}" }, 400],
  [
    "a factory in one segment",
    { path: under("/registry/transfer-instruction%2Fv2%2Ftransfer-factory"), body: expecting(B) },
    [400, 404],
  ],
  ["an id that is %2E%2e", { path: under(`${LIST}/%2E%2e`) }, 400],
  ["an id that is .", { path: under(`${LIST}/%2e`) }, 400],
  ["an empty id", { path: under(`${LIST}/`) }, 400],
  ["an empty contract id", { path: under("/registry/allocations/v1//choice-contexts/cancel"), body: "{}" }, 400],
  ["a NUL as id", { path: under(`${LIST}/%00`) }, 400],
  ["a line break in an id", { path: under(`${LIST}/a%0d%0ab`) }, 400],
  ["an overlong slash in an id", { path: under(`${LIST}/a%C0%AFb`) }, 400],
  ["a surrogate in an id", { path: under(`${LIST}/%ED%A0%80`) }, 400],
  ["a raw slash in an id", { path: under(`${LIST}/Amulet/USD`) }, 404],
  [
    "a raw slash in a contract id",
    { path: under("/registry/allocations/v1/a/b/choice-contexts/cancel"), body: "{}" },
    404,
  ],
  ["no registry in the path", { path: under("/metadata/v1/info") }, 404],
  ["a path outside", { path: "/metadata/v1/info" }, 404],
  ["a prefix in other letters", { path: `${PREFIX.toUpperCase()}/amulet${info}` }, 404],
  ["another method on info", { path: under(info), body: "{}" }, 405],
  ["another method on a context", { path: under(CANCEL) }, 405],
  ["another method on a factory", { path: under(FACTORY), method: "PUT" }, 405],
  ["PATCH on a draft", { path: under(DRAFT), method: "PATCH" }, 405],
  ["another scheme as target", { path: `ftp://x${under(info)}` }, [400, 404]],
];

describe("a request that names no registry, or none clearly, goes nowhere:", () => {
  test.each(ROWS)("%s", async (_what, request, status) => {
    const got = await outcome(request);
    expect(got.asked).toEqual([]);
    expect(typeof status === "number" ? [status] : status).toContain(got.status);
  });
});

test("an error about an admin names what does not agree, and how to name a registry", async () => {
  const { gateway } = three();
  const torn = await gateway.send({ path: under(FACTORY), body: expecting(B) });
  expectOwnError(torn, 400, "admin_disagreement");
  expect(torn.error).toContain("amulet");
  expect(torn.error).toContain(B);
  const header = await gateway.get(under(INFO), { [HEADER]: "bonds" });
  expectOwnError(header, 400, "admin_disagreement");
  const none = await gateway.post(CANCEL);
  expectOwnError(none, 400, "admin_missing");
  expect(none.error).toContain(`${PREFIX}/`);
  expect(none.error).toContain("amulet");
  expect(none.error).toContain("bonds");
  const unknown = await gateway.get(`${PREFIX}/${encodeURIComponent(STRANGER)}${INFO}`);
  expectOwnError(unknown, 404, "admin_unknown");
  expect(unknown.error).toContain("stranger");
});
