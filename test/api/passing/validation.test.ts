import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { ACCEPT, CANCEL, DRAFT, FACTORY, FACTORY_V2, INFO, LIST, pathOf } from "../../support/endpoints.ts";
import { NOTHING_KEPT, startGateway, type TestGateway } from "../../support/gateway.ts";
import { expectOwnError, type Request } from "../../support/http.ts";
import { type Registry, startRegistry } from "../../support/registry.ts";
import { useThree } from "../../support/three.ts";

const three = useThree({ keys: { limits: { requestBody: "64KiB", responseBody: "64KiB" } } });

const ALLOCATION = pathOf("allocation_factory");
const GOOD = '{"choiceArguments":{}}';
const LARGE = `{"choiceArguments":{"x":"${"x".repeat(65 * 1024)}"}}`;
const typed = (type: string) => ({ headers: { "content-type": type } });
const chunked = { headers: { "transfer-encoding": "chunked" } };

describe("a request that is not valid never reaches a registry:", () => {
  test.each<[string, Request, number]>([
    ["a list", { path: FACTORY, body: "[]" }, 400],
    ["a string", { path: FACTORY, body: '"x"' }, 400],
    ["null", { path: CANCEL, body: "null" }, 400],
    ["a number", { path: CANCEL, body: "1" }, 400],
    ["an empty factory body", { path: FACTORY, body: "" }, 400],
    ["no factory body", { path: FACTORY, method: "POST", headers: { "content-type": "application/json" } }, 400],
    ["no choiceArguments", { path: FACTORY, body: "{}" }, 400],
    ["choiceArguments null", { path: ALLOCATION, body: '{"choiceArguments":null}' }, 400],
    ["choiceArguments a list", { path: ALLOCATION, body: '{"choiceArguments":[]}' }, 400],
    ["choiceArguments a string", { path: FACTORY, body: '{"choiceArguments":"{}"}' }, 400],
    ["excludeDebugFields a string", { path: FACTORY, body: '{"choiceArguments":{},"excludeDebugFields":"true"}' }, 400],
    ["excludeDebugFields a number", { path: CANCEL, body: '{"excludeDebugFields":0}' }, 400],
    ["meta a list", { path: CANCEL, body: '{"meta":[]}' }, 400],
    ["meta a string", { path: ACCEPT, body: '{"meta":"x"}' }, 400],
    ["no choiceArguments of version 2", { path: FACTORY_V2, body: "{}" }, 400],
    ["choiceArguments of version 2 a list", { path: FACTORY_V2, body: '{"choiceArguments":[]}' }, 400],
    ["bytes that are no UTF-8", { path: CANCEL, body: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]) }, 400],
    ["UTF-16", { path: CANCEL, body: Buffer.from("{}", "utf16le") }, 400],
    ["trailing garbage", { path: CANCEL, body: "{} x" }, 400],
    ["a cut-off text", { path: CANCEL, body: '{"meta":' }, 400],
    ["a form", { path: CANCEL, body: "a=b", ...typed("application/x-www-form-urlencoded") }, 415],
    ["text/plain", { path: CANCEL, body: "{}", ...typed("text/plain") }, 415],
    ["a type that is none", { path: CANCEL, body: "{}", ...typed("json") }, 415],
    ["another charset", { path: CANCEL, body: "{}", ...typed("application/json; charset=latin1") }, 415],
    ["gzip", { path: CANCEL, body: gzipSync("{}"), headers: { "content-encoding": "gzip" } }, 415],
    ["gzip of version 2", { path: FACTORY_V2, body: gzipSync(GOOD), headers: { "content-encoding": "gzip" } }, 415],
    ["65 KiB", { path: FACTORY, body: LARGE }, 413],
    ["65 KiB in chunks", { path: FACTORY, body: LARGE, ...chunked }, 413],
    ["65 KiB of version 2", { path: FACTORY_V2, body: LARGE }, 413],
    ["65 KiB for a draft", { path: DRAFT, body: LARGE }, 413],
    ["65 KiB in chunks for a draft", { path: DRAFT, body: LARGE, ...chunked }, 413],
    ["pageSize 0", { path: `${LIST}?pageSize=0` }, 400],
    ["pageSize empty", { path: `${LIST}?pageSize=` }, 400],
    ["pageSize twice", { path: `${LIST}?pageSize=1&pageSize=1` }, 400],
    ["pageSize negative", { path: `${LIST}?pageSize=-1` }, 400],
    ["pageSize a fraction", { path: `${LIST}?pageSize=1.5` }, 400],
    ["pageSize in words", { path: `${LIST}?pageSize=ten` }, 400],
    ["pageSize beyond 32 bits", { path: `${LIST}?pageSize=2147483648` }, 400],
    ["pageToken empty", { path: `${LIST}?pageToken=` }, 400],
    ["pageToken twice", { path: `${LIST}?pageToken=a&pageToken=a` }, 400],
    ["pageToken twice, one escaped", { path: `${LIST}?pageToken=a&page%54oken=b` }, 400],
    ["pageToken that is no UTF-8", { path: `${LIST}?pageToken=%ff` }, 400],
  ])("%s", async (_what, request, status) => {
    const { gateway, asked } = three();
    const answer = await gateway.send({ ...request, path: gateway.base("amulet") + request.path });
    expectOwnError(answer, status);
    expect(asked()).toEqual([]);
  });

  test.each([
    [{ path: FACTORY, body: "{" }, "malformed_body", /JSON/],
    [{ path: FACTORY, body: "{}" }, "invalid_request", /choiceArguments/],
    [{ path: CANCEL, body: '{"meta":[]}' }, "invalid_request", /meta/],
    [{ path: `${LIST}?pageSize=abc` }, "invalid_query", /pageSize/],
    [{ path: CANCEL, body: "{}", ...typed("text/plain") }, "unsupported_media_type", /application\/json/],
    [{ path: CANCEL, body: LARGE }, "body_too_large", /64 ?KiB/],
  ])("the text says what is wrong: %j", async (request, code, text) => {
    const { gateway } = three();
    const answer = await gateway.send({ ...request, path: gateway.base("amulet") + request.path });
    expect(answer.code).toBe(code);
    expect(answer.error).toMatch(text);
  });
});

describe("a request that is valid reaches it:", () => {
  test.each<[string, Request]>([
    ["an object", { path: CANCEL, body: "{}" }],
    ["no body at all", { path: CANCEL, method: "POST" }],
    ["an empty body with a type", { path: CANCEL, body: "" }],
    ["an empty chunked body", { path: CANCEL, body: "", ...chunked }],
    ["meta null", { path: CANCEL, body: '{"meta":null,"excludeDebugFields":null}' }],
    ["excludeDebugFields", { path: CANCEL, body: '{"excludeDebugFields":true}' }],
    ["meta with objects", { path: ACCEPT, body: '{"meta":{"values":{}}}' }],
    ["meta as some clients send it", { path: ACCEPT, body: '{"meta":{"values":""}}' }],
    ["unknown fields", { path: ACCEPT, body: '{"lock":null,"x":[1]}' }],
    ["another parameter", { path: CANCEL, body: "{}", ...typed('application/json;odata="verbose"; charset="UTF-8"') }],
    ["a charset", { path: CANCEL, body: "{}", ...typed("application/json; charset=utf-8") }],
    ["a charset in capitals and quotes", { path: CANCEL, body: "{}", ...typed('Application/JSON;charset="UTF-8"') }],
    ["identity", { path: CANCEL, body: "{}", headers: { "content-encoding": "identity" } }],
    ["choice arguments of any kind", { path: FACTORY, body: '{"choiceArguments":{"x":[{}]},"y":1}' }],
    [
      "placeholders in version 2",
      { path: FACTORY_V2, body: '{"choiceArguments":{"actors":"x","transfer":{"sender":5}}}' },
    ],
    ["GET with a content type", { path: `${LIST}?pageSize=3`, headers: { "content-type": "application/json" } }],
    ["an unknown parameter", { path: `${LIST}?pageSize=4&pagesize=x` }],
    ["63 KiB", { path: CANCEL, body: `{"x":"${"x".repeat(63 * 1024)}"}` }],
  ])("%s", async (_what, request) => {
    const { gateway, asked, registries } = three();
    const answer = await gateway.send({ ...request, path: gateway.base("amulet") + request.path });
    expect([answer.status, asked().length]).toEqual([200, 1]);
    if (typeof request.body === "string") expect(registries.amulet.last.body.toString()).toBe(request.body);
  });

  test("a GET with a body is answered without it", async () => {
    const { gateway, registries } = three();
    const request = { method: "GET", body: '{"x":1}', headers: { "content-length": "7" } };
    const answer = await gateway.send({ ...request, path: `${gateway.base("amulet")}${LIST}?pageSize=9` });
    expect(answer.status).toBe(200);
    expect(registries.amulet.last.body).toHaveLength(0);
  });
});

describe("an answer that breaks the published schema", () => {
  const broken: readonly [string, Request, (admin: string) => string][] = [
    ["info", { path: INFO }, (admin) => `{"adminId":"${admin}"}`],
    ["instruments", { path: LIST }, () => '{"instruments":[{"id":"A"}]}'],
    ["instrument", { path: `${LIST}/A` }, () => '{"id":"A"}'],
    ["transfer_factory", { path: FACTORY, body: GOOD }, () => '{"factoryId":1}'],
    ["allocation_factory", { path: ALLOCATION, body: GOOD }, () => '{"factory_id":"in snake case"}'],
    ["allocation_cancel", { path: CANCEL, body: "{}" }, () => '{"choice_context_data":{}}'],
    ["transfer_factory_v2", { path: FACTORY_V2, body: GOOD }, () => "{}"],
  ];

  /** One registry behind two gateways, which keep nothing. */
  let amulet: Registry;
  let lenient: TestGateway;
  let strict: TestGateway;
  beforeAll(async () => {
    amulet = await startRegistry("amulet");
    lenient = await startGateway({ ...NOTHING_KEPT, upstreams: [amulet] });
    strict = await startGateway({ ...NOTHING_KEPT, upstreams: [amulet.upstream({ validation: "strict" })] });
    for (const gateway of [lenient, strict]) expect((await gateway.post(CANCEL)).status).toBe(200);
  });

  test.each(broken)(
    "of %s is passed on where validation is lenient, and 502 where it is strict",
    async (operation, request, bodyOf) => {
      const body = bodyOf(amulet.admin);
      amulet.reset().on(operation, { body });
      const answer = await lenient.send(request);
      expect([answer.status, answer.text]).toEqual([200, body]);
      const refused = await strict.send(request);
      expectOwnError(refused, 502, "upstream_invalid");
      expect(refused.error).toContain("amulet");
      amulet.reset();
    },
  );

  test("good answers are passed on by strict validation as ever", async () => {
    for (const path of [INFO, LIST, `${LIST}/AMULET-00001`]) expect((await strict.get(path)).status).toBe(200);
    for (const path of [FACTORY, ALLOCATION, FACTORY_V2]) expect((await strict.post(path, GOOD)).status).toBe(200);
    expect((await strict.post(CANCEL)).status).toBe(200);
  });

  test("a page without instruments passes, and is not stored", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await startGateway({ upstreams: [amulet] });
    amulet.on("instruments", { body: "[]" });
    for (let round = 1; round <= 2; round += 1) {
      const answer = await gateway.get(LIST);
      expect([answer.status, answer.text]).toEqual([200, "[]"]);
    }
    expect(amulet.count()).toBe(2);
  });
});
