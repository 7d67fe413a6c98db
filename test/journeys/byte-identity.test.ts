import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { NOTHING_KEPT } from "../support/gateway.ts";
import { ENDPOINTS, endpointPath } from "../../src/spec/endpoints.ts";
import { jsonText } from "../support/json-text.ts";
import { send } from "../support/send.ts";
import { runs } from "../support/thorough.ts";
import { ADMINS, useThreeRegistries } from "../support/three-registries.ts";

const running = useThreeRegistries({
  keys: NOTHING_KEPT,
});

const PREFIX = "/api/token-standard/v0/registrars";

/** What survives only as bytes: numbers no double holds, keys given twice, needless escapes, odd white space. */
const PECULIAR = [
  "12345678901234567890.10",
  "1.0E+2",
  "-0.0",
  "1e400",
  "0.1000000000000000055511151231257827021181583404541015625",
  '{"a":1,"a":2}',
  '{"b":1,"a":1,"10":1,"9":1}',
  '"\\u0041\\/\\u00e9é\\ud83d\\ude00"',
  '"\\ud800"',
  " [\t1 ,\r\n 2 ] ",
  '{"constructor":{"prototype":{}}}',
];

/** A text with something peculiar within, as a value of `payload`. */
const payload = fc.oneof(
  fc.constantFrom(...PECULIAR),
  // A key __proto__ in a request is refused, which is told elsewhere.
  jsonText(fc.jsonValue().filter((value) => !JSON.stringify(value).includes('"__proto__"'))).map(({ text }) => text),
);

/** A success body of each endpoint with `text` as an unknown field of it. */
const GOOD: Readonly<Record<string, (text: string) => string>> = {
  info: (text) => `{ "adminId":"${ADMINS.amulet}","supportedApis":{} ,"x":${text}}`,
  instruments: (text) => `{"instruments":[ ],"x":${text} }`,
  instrument: (text) => `{"x":${text},"id":"A/1","name":"A","symbol":"A","decimals":10,"supportedApis":{}}\n`,
  factory: (text) =>
    `{"factoryId":"f","transferKind":"self","choiceContext":{"choiceContextData":{"x":${text}},"disclosedContracts":[]}}`,
  context: (text) => `{"choiceContextData":{"x":${text}}, "disclosedContracts":[]}`,
};

describe.each(ENDPOINTS.map(({ operation }) => operation))("at %s", (operation) => {
  const endpoint = ENDPOINTS.find((each) => each.operation === operation)!;
  const path = `${PREFIX}/amulet${endpointPath(endpoint, "A/1")}`;
  const good = GOOD[operation] ?? GOOD[endpoint.kind]!;

  test("bodies reach both sides byte for byte", async () => {
    const { registries, url } = running();
    const { amulet } = registries;
    await fc.assert(
      fc.asyncProperty(payload, payload, async (asked, answered) => {
        amulet.script(() => ({ status: 200, headers: ["Content-Type", "application/json"], body: good(answered) }));
        const isPost = endpoint.kind !== "metadata";
        const body = endpoint.kind === "factory" ? `{"choiceArguments":{"x":${asked}} }` : `{ "x":${asked}}`;
        amulet.calls.clear();
        const answer = await send(url, isPost ? { path, body } : { path });
        expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json"]);
        expect(answer.text).toBe(good(answered));
        expect(amulet.calls.last!.body.toString()).toBe(isPost ? body : "");
      }),
      // Each of the twenty endpoints has what is peculiar, and some of what is drawn.
      { numRuns: runs(15, 60), examples: PECULIAR.map((text) => [text, text]) },
    );
    amulet.script(undefined);
  });
});

test("what passes through does too, whatever it is", async () => {
  const { registries, url } = running();
  const { amulet } = registries;
  const bytes = fc.uint8Array({ maxLength: 20_000 }).map((array) => Buffer.from(array));
  await fc.assert(
    fc.asyncProperty(bytes, bytes, async (asked, answered) => {
      amulet.script(() => ({ status: 207, headers: ["Content-Type", "application/x-blob"], body: answered }));
      amulet.calls.clear();
      const headers = { "content-type": "application/octet-stream" };
      const answer = await send(url, { path: `${PREFIX}/amulet/registry/drafts/v1/x?a=%2f&b`, headers, body: asked });
      expect([answer.status, answer.headers["content-type"]]).toEqual([207, "application/x-blob"]);
      expect(answer.bytes.equals(answered)).toBe(true);
      expect(amulet.calls.last!.body.equals(asked)).toBe(true);
      expect(amulet.calls.last!.url).toBe("/registry/drafts/v1/x?a=%2f&b");
    }),
    { numRuns: runs(30, 60) },
  );
  amulet.script(undefined);
});

test("the body of a version 2 factory is read on the way and still the same bytes", async () => {
  const { registries, url } = running();
  const { amulet } = registries;
  await fc.assert(
    fc.asyncProperty(payload, async (asked) => {
      const body = ` {"choiceArguments":{"expectedAdmin":"${ADMINS.amulet}","x":${asked}}}`;
      amulet.calls.clear();
      const answer = await send(url, { path: "/registry/transfer-instruction/v2/transfer-factory", body });
      expect(answer.status).toBe(200);
      expect(amulet.calls.last!.body.toString()).toBe(body);
    }),
    { numRuns: runs(30, 60), examples: PECULIAR.map((text): [string] => [text]) },
  );
});

test("an error in the registry's form keeps its bytes and status", async () => {
  const { registries, url } = running();
  const { amulet } = registries;
  await fc.assert(
    fc.asyncProperty(payload, fc.constantFrom(400, 404, 409, 422, 500), async (text, status) => {
      const body = ` {"error":"not \\u0074oday" ,"detail":${text}}`;
      amulet.script(() => ({ status, headers: ["Content-Type", "application/problem+json"], body }));
      const posted = { path: `${PREFIX}/amulet/registry/allocations/v1/x/choice-contexts/cancel`, body: "{}" };
      const answer = await send(url, posted);
      expect([answer.status, answer.headers["content-type"]]).toEqual([status, "application/json"]);
      expect(answer.text).toBe(body);
    }),
    { numRuns: runs(20, 40) },
  );
  amulet.script(undefined);
});
