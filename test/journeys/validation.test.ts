import { describe, expect, test } from "vitest";
import { gzipSync } from "node:zlib";
import type { Operation } from "../../src/spec/operations.ts";
import { DSO, sampleText } from "../support/sample.ts";
import { errorOf, type SentRequest, send } from "../support/send.ts";
import { useThreeRegistries } from "../support/three-registries.ts";

const running = useThreeRegistries({ keys: { limits: { requestBody: "64KiB" } } });
const strict = useThreeRegistries({ upstreamKeys: { validation: "strict" } });

const BASE = "/api/token-standard/v0/registrars/amulet";
const INFO = `${BASE}/registry/metadata/v1/info`;
const LIST = `${BASE}/registry/metadata/v1/instruments`;
const CANCEL = `${BASE}/registry/allocations/v1/00ab/choice-contexts/cancel`;
const ACCEPT = `${BASE}/registry/transfer-instruction/v1/00ab/choice-contexts/accept`;
const FACTORY = `${BASE}/registry/transfer-instruction/v1/transfer-factory`;
const ALLOCATION = `${BASE}/registry/allocation-instruction/v1/allocation-factory`;
const DRAFT_FACTORY = `${BASE}/registry/transfer-instruction/v2/transfer-factory`;
const GOOD = '{"choiceArguments":{}}';

const rows: readonly [string, SentRequest, number][] = [
  ["a list", { path: FACTORY, body: "[]" }, 400],
  ["a string", { path: FACTORY, body: '"x"' }, 400],
  ["null", { path: CANCEL, body: "null" }, 400],
  ["a number", { path: CANCEL, body: "1" }, 400],
  ["an empty factory body", { path: FACTORY, body: "" }, 400],
  ["an empty factory body without a type", { path: FACTORY, method: "POST" }, 400],
  ["no choiceArguments", { path: FACTORY, body: "{}" }, 400],
  ["choiceArguments null", { path: ALLOCATION, body: '{"choiceArguments":null}' }, 400],
  ["choiceArguments a list", { path: ALLOCATION, body: '{"choiceArguments":[]}' }, 400],
  ["choiceArguments a string", { path: FACTORY, body: '{"choiceArguments":"{}"}' }, 400],
  ["excludeDebugFields a string", { path: FACTORY, body: '{"choiceArguments":{},"excludeDebugFields":"true"}' }, 400],
  ["excludeDebugFields a number", { path: CANCEL, body: '{"excludeDebugFields":0}' }, 400],
  ["meta a list", { path: CANCEL, body: '{"meta":[]}' }, 400],
  ["meta a string", { path: ACCEPT, body: '{"meta":"x"}' }, 400],
  ["a byte order mark", { path: CANCEL, body: Buffer.from("\ufeff{}") }, 400],
  ["bytes that are no UTF-8", { path: CANCEL, body: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]) }, 400],
  ["UTF-16", { path: CANCEL, body: Buffer.from("{}", "utf16le") }, 400],
  ["trailing garbage", { path: CANCEL, body: "{} x" }, 400],
  ["a cut-off text", { path: CANCEL, body: '{"meta":' }, 400],
  ["a key __proto__", { path: CANCEL, body: '{"meta":{"__proto__":{}}}' }, 400],
  ["an escaped key __proto__", { path: CANCEL, body: '{"\\u005f_proto__":1}' }, 400],
  ["a form", { path: CANCEL, body: "a=b", headers: { "content-type": "application/x-www-form-urlencoded" } }, 415],
  ["text/plain", { path: CANCEL, body: "{}", headers: { "content-type": "text/plain" } }, 415],
  ["a type that is none", { path: CANCEL, body: "{}", headers: { "content-type": "json" } }, 415],
  ["an empty type", { path: CANCEL, body: "{}", headers: { "content-type": "" } }, 415],
  [
    "another charset",
    { path: CANCEL, body: "{}", headers: { "content-type": "application/json; charset=latin1" } },
    415,
  ],
  ["gzip", { path: CANCEL, body: gzipSync("{}"), headers: { "content-encoding": "gzip" } }, 415],
  ["gzip of nothing", { path: CANCEL, method: "POST", headers: { "content-encoding": "gzip" } }, 415],
  ["gzip on a draft", { path: DRAFT_FACTORY, body: gzipSync(GOOD), headers: { "content-encoding": "gzip" } }, 415],
  ["a list for a draft factory", { path: DRAFT_FACTORY, body: "[" }, 400],
  ["bytes that are no UTF-8 for a draft factory", { path: DRAFT_FACTORY, body: Buffer.from([0x22, 0xff, 0x22]) }, 400],
  ["65 KiB", { path: CANCEL, body: `{"x":"${"x".repeat(65 * 1024)}"}` }, 413],
  [
    "65 KiB in chunks",
    { path: CANCEL, body: `{"x":"${"x".repeat(65 * 1024)}"}`, headers: { "transfer-encoding": "chunked" } },
    413,
  ],
  ["65 KiB for a draft factory", { path: DRAFT_FACTORY, body: `{"x":"${"x".repeat(65 * 1024)}"}` }, 413],
  [
    "65 KiB in chunks for a draft factory",
    { path: DRAFT_FACTORY, body: `{"x":"${"x".repeat(65 * 1024)}"}`, headers: { "transfer-encoding": "chunked" } },
    413,
  ],
  ["65 KiB for a draft", { path: `${BASE}/registry/drafts/v1/x`, body: "x".repeat(65 * 1024) }, 413],
  ["pageSize 0", { path: `${LIST}?pageSize=0` }, 400],
  ["pageSize empty", { path: `${LIST}?pageSize=` }, 400],
  ["pageSize twice", { path: `${LIST}?pageSize=1&pageSize=1` }, 400],
  ["pageSize negative", { path: `${LIST}?pageSize=-1` }, 400],
  ["pageSize a fraction", { path: `${LIST}?pageSize=1.5` }, 400],
  ["pageSize beyond 32 bits", { path: `${LIST}?pageSize=2147483648` }, 400],
  ["pageToken twice", { path: `${LIST}?pageToken=a&pageToken=a` }, 400],
  ["pageToken that is no UTF-8", { path: `${LIST}?pageToken=%ff` }, 400],
];

describe("a request that is not valid never reaches a registry:", () => {
  test.each(rows)("%s", async (_what, request, status) => {
    running().clearCalls();
    const answer = await send(running().url, request);
    expect(answer.status).toBe(status);
    expect(answer.headers["content-type"]).toBe("application/json");
    expect(errorOf(answer)).toMatch(/^registry-gateway: /);
    expect(answer.headers["access-control-allow-origin"]).toBe("*");
    expect(running().called()).toEqual([]);
  });

  test.each([
    ["{", "malformed_body"],
    ["{}", "invalid_request"],
    ['{"choiceArguments":{"expectedAdmin":"a::1220","expectedAdmin":"b::1220"}}', "admin_ambiguous"],
    [`{"choiceArguments":{"expectedAdmin":["a::1220"]}}`, "admin_ambiguous"],
  ])("the code of a factory call with the body %s is %s", async (body, code) => {
    const answer = await send(running().url, { path: FACTORY, body });
    expect(JSON.parse(answer.text)).toMatchObject({ code });
    expect(answer.status).toBe(400);
  });

  test("the text says where it is wrong", async () => {
    const of = async (request: SentRequest): Promise<string> => errorOf(await send(running().url, request));
    expect(await of({ path: FACTORY, body: "{}" })).toContain("choiceArguments is missing");
    expect(await of({ path: CANCEL, body: '{"meta":[]}' })).toContain("meta");
    expect(await of({ path: `${LIST}?pageSize=abc` })).toContain('"abc"');
    expect(await of({ path: CANCEL, body: "{}", headers: { "content-type": "text/plain" } })).toContain(
      "content-type: application/json",
    );
    expect(await of({ path: CANCEL, body: `"${"x".repeat(70_000)}"` })).toContain("64KiB");
  });
});

describe("a request that is valid reaches it:", () => {
  const DISCLOSED = [200, 404];
  test.each<[string, SentRequest]>([
    ["an object", { path: CANCEL, body: "{}" }],
    ["no body at all", { path: CANCEL, method: "POST" }],
    ["an empty body with a type", { path: CANCEL, body: "" }],
    ["an empty chunked body", { path: CANCEL, method: "POST", headers: { "transfer-encoding": "chunked" } }],
    ["meta null", { path: CANCEL, body: '{"meta":null,"excludeDebugFields":null}' }],
    ["meta with objects", { path: ACCEPT, body: '{"meta":{"values":{}}}' }],
    ["meta as some clients send it", { path: ACCEPT, body: '{"meta":{"values":""}}' }],
    ["unknown fields", { path: ACCEPT, body: '{"lock":null,"x":[1]}' }],
    ["a charset", { path: CANCEL, body: "{}", headers: { "content-type": "application/json; charset=utf-8" } }],
    ["identity", { path: CANCEL, body: "{}", headers: { "content-encoding": "identity" } }],
    ["choice arguments of any kind", { path: FACTORY, body: '{"choiceArguments":{"x":[{}]},"y":1}' }],
    ["GET with a content type", { path: `${LIST}?pageSize=3`, headers: { "content-type": "application/json" } }],
    ["63 KiB", { path: CANCEL, body: `{"x":"${"x".repeat(63 * 1024)}"}` }],
    ["an unknown parameter", { path: `${LIST}?pageSize=4&pagesize=x` }],
  ])("%s", async (_what, request) => {
    running().clearCalls();
    const answer = await send(running().url, request);
    // Besides the infos that the registry is asked for over new connections.
    expect(
      running()
        .called()
        .filter((call) => call !== "amulet info"),
    ).toHaveLength(1);
    // The registry that is reached checks flat meta itself.
    if (!request.body?.includes('"values"')) expect(DISCLOSED).toContain(answer.status);
  });

  test("GET with a body is answered without it", async () => {
    running().clearCalls();
    const request = { method: "GET", path: `${LIST}?pageSize=9`, body: '{"x":1}', headers: { "content-length": "7" } };
    const answer = await send(running().url, request);
    expect(answer.status).toBe(200);
    expect(running().registries.amulet.calls.last!.body).toHaveLength(0);
  });
});

const BROKEN: readonly [Exclude<Operation, "pass_through">, SentRequest, string][] = [
  ["info", { path: INFO }, `{"adminId":"${DSO}"}`],
  ["instruments", { path: LIST }, '{"instruments":{}}'],
  ["instruments", { path: LIST }, "[]"],
  ["instrument", { path: `${LIST}/A` }, '{"id":"A"}'],
  ["transfer_factory", { path: FACTORY, body: GOOD }, '{"factoryId":1}'],
  ["allocation_factory", { path: ALLOCATION, body: GOOD }, "null"],
  ["allocation_cancel", { path: CANCEL, body: "{}" }, '{"choiceContextData":{}}'],
];

describe("an answer that breaks its schema", () => {
  test.each(BROKEN.slice(0, 4))("of %s is passed on, counted, and not stored: %j", async (operation, request, body) => {
    const { registries, url, operations, gateway } = running();
    const { amulet } = registries;
    const violations = async () => {
      const { values } = await gateway.metrics.schemaViolations.get();
      return values.find(({ labels }) => labels.operation === operation && labels.upstream === "amulet")?.value ?? 0;
    };
    expect((await send(operations, { path: "/purge", body: "{}" })).status).toBe(200);
    amulet.script(() => ({ status: 200, headers: ["Content-Type", "application/json"], body }));
    amulet.calls.clear();
    const before = await violations();
    for (let i = 0; i < 2; i++) {
      const answer = await send(url, request);
      expect([answer.status, answer.text]).toEqual([200, body]);
    }
    amulet.script(undefined);
    expect((await violations()) - before).toBe(2);
    expect(amulet.calls.total).toBe(2);
  });

  test.each(BROKEN.slice(4))("of %s is passed on: %j", async (_operation, request, body) => {
    const { registries, url } = running();
    registries.amulet.script(() => ({ status: 200, headers: ["Content-Type", "application/json"], body }));
    const answer = await send(url, request);
    registries.amulet.script(undefined);
    expect([answer.status, answer.text]).toEqual([200, body]);
  });

  test.each(BROKEN)("of %s is 502 where validation is strict: %j", async (_operation, request, body) => {
    const { registries, url } = strict();
    registries.amulet.script(() => ({ status: 200, headers: ["Content-Type", "application/json"], body }));
    const answer = await send(url, request);
    registries.amulet.script(undefined);
    expect(answer.status).toBe(502);
    expect(answer.headers["proxy-status"]).toMatch(/^registry-gateway;error=/);
    expect(errorOf(answer)).toContain("amulet");
    expect(errorOf(answer)).toContain("schema");
  });
});

describe("where validation is strict", () => {
  test("meta is a flat map of strings", async () => {
    const { url, registries } = strict();
    registries.amulet.calls.clear();
    const wrapped = sampleText("05-07-choice-context.request.meta-wrapped-rejected-by-scan.json");
    expect((await send(url, { path: CANCEL, body: wrapped })).status).toBe(400);
    expect((await send(url, { path: CANCEL, body: '{"meta":{"a":1}}' })).status).toBe(400);
    expect((await send(url, { path: CANCEL, body: '{"meta":{"a\\nb":{"x":1}}}' })).status).toBe(400);
    expect(registries.amulet.calls.total).toBe(0);
    for (const body of ['{"meta":{"a":"b"}}', '{"meta":null}', "{}"]) {
      expect([200, 404]).toContain((await send(url, { path: CANCEL, body })).status);
    }
    expect(registries.amulet.calls.total).toBe(3);
  });

  test("good answers are passed on as ever", async () => {
    const { url } = strict();
    for (const path of [INFO, LIST]) expect((await send(url, { path })).status).toBe(200);
    const body = `{"choiceArguments":{"expectedAdmin":"${DSO}"}}`;
    for (const path of [FACTORY, ALLOCATION]) expect((await send(url, { path, body })).status).toBe(200);
  });
});
