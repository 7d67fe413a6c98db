import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CANCEL, choice, DRAFT, ENDPOINTS } from "../../support/endpoints.ts";
import { NOTHING_KEPT } from "../../support/gateway.ts";
import { runs } from "../../support/thorough.ts";
import { useThree } from "../../support/three.ts";

const three = useThree({ keys: NOTHING_KEPT });

/** What survives only as bytes: numbers no double holds, keys given twice, needless escapes, odd white space. */
const PECULIAR = [
  "12345678901234567890.10",
  "1.0E+2",
  "-0.0",
  "1e400",
  '{"a":1,"a":2}',
  '{"b":1,"a":1,"10":1,"9":1}',
  '"\\u0041\\/\\u00e9é\\ud83d\\ude00"',
  '"\\ud800"',
  " [\t1 ,\r\n 2 ] ",
  '{"constructor":{"prototype":{}}}',
];

/** A JSON text with odd white space. */
const payload = fc.oneof(
  fc.constantFrom(...PECULIAR),
  fc
    .tuple(fc.jsonValue(), fc.constantFrom("", " ", "\n", "\t "))
    .map(([value, space]) => space + JSON.stringify(value, null, space === "\n" ? 1 : 0) + space)
    .filter((text) => !text.includes("__proto__")),
);

/** A success body with `text` as an unknown field of it. */
const ANSWERS: Readonly<Record<string, (text: string) => string>> = {
  info: (text) => `{ "adminId":"${three().registries.amulet.admin}","supportedApis":{} ,"x":${text}}`,
  instruments: (text) => `{"instruments":[ ],"x":${text} }`,
  metadata: (text) => `{ "x":${text}}`,
  instrument: (text) => `{"x":${text},"id":"A/1","name":"A","symbol":"A","decimals":10,"supportedApis":{}}\n`,
  factory: (text) =>
    `{"factoryId":"f","transferKind":"self","choiceContext":{"choiceContextData":{"x":${text}},"disclosedContracts":[]}}`,
  context: (text) => `{"choiceContextData":{"x":${text}}, "disclosedContracts":[]}`,
};

describe.each(ENDPOINTS)("at $operation", ({ operation, method, path, kind }) => {
  test("bodies reach both sides byte for byte", async () => {
    const { gateway, registries } = three();
    const { amulet } = registries;
    const answerOf = ANSWERS[operation] ?? ANSWERS[kind]!;
    const below = gateway.base("amulet") + path.replace("{id}", "A%2F1");
    await fc.assert(
      fc.asyncProperty(payload, payload, async (asked, answered) => {
        amulet.calls.length = 0;
        amulet.on(operation, { body: answerOf(answered) });
        const body = kind === "factory" ? `{"choiceArguments":{"x":${asked}} }` : `{ "x":${asked}}`;
        const answer = await gateway.send({ path: below, ...(method === "POST" && { body }) });
        expect([answer.status, answer.text]).toEqual([200, answerOf(answered)]);
        const { body: received } = amulet.calls.findLast((call) => call.operation === operation)!;
        expect(received.toString()).toBe(method === "POST" ? body : "");
      }),
      { numRuns: runs(8, 60), examples: PECULIAR.slice(0, 6).map((text) => [text, text]) },
    );
  });
});

test("what passes through is the same bytes both ways, whatever they are", async () => {
  const { gateway, registries } = three();
  const { amulet } = registries;
  const bytes = fc.uint8Array({ maxLength: 20_000 }).map((array) => Buffer.from(array));
  await fc.assert(
    fc.asyncProperty(bytes, bytes, async (asked, answered) => {
      amulet.on(DRAFT, { status: 207, fields: ["Content-Type", "application/x-blob"], body: answered });
      const headers = { "content-type": "application/octet-stream" };
      const answer = await gateway.post(`${gateway.base("amulet")}${DRAFT}?a=%2f&b`, asked, headers);
      expect([answer.status, answer.headers["content-type"]]).toEqual([207, "application/x-blob"]);
      expect(answer.bytes.equals(answered)).toBe(true);
      expect(amulet.last.body.equals(asked)).toBe(true);
      expect(amulet.last.url).toBe(`${DRAFT}?a=%2f&b`);
    }),
    { numRuns: runs(20, 100) },
  );
});

test("an error in the registry's form keeps its bytes and status", async () => {
  const { gateway, registries } = three();
  await fc.assert(
    fc.asyncProperty(payload, fc.constantFrom(400, 404, 409, 422), async (text, status) => {
      const body = ` {"error":"not \\u0074oday" ,"detail":${text}}`;
      registries.amulet.on("*", { status, fields: ["Content-Type", "application/problem+json"], body });
      const answer = await gateway.post(gateway.base("amulet") + CANCEL);
      expect([answer.status, answer.text]).toEqual([status, body]);
      expect(answer.headers["content-type"]).toMatch(/^application\/json/);
    }),
    { numRuns: runs(20, 60) },
  );
});

test("bodies may be as large as a settlement of a hundred legs", async () => {
  const { gateway, registries } = three();
  const transferLegs = Array.from({ length: 100 }, (_none, at) => ({ id: `leg-${at}`, note: "y".repeat(9_000) }));
  const body = choice({ settlement: {}, transferLegs, allocations: [] });
  expect(body.length).toBeGreaterThan(900_000);
  const answered = JSON.stringify({
    factoryId: "f",
    choiceContext: { choiceContextData: { pad: "z".repeat(3_900_000) }, disclosedContracts: [] },
  });
  registries.amulet.on("settlement_factory_v2", { body: answered });
  const path = `${gateway.base("amulet")}/registry/allocation/v2/settlement-factory`;
  const answers = await Promise.all([1, 2, 3].map(() => gateway.post(path, body)));
  for (const answer of answers) expect([answer.status, answer.text === answered]).toEqual([200, true]);
  expect(registries.amulet.of().every((call) => call.body.toString() === body)).toBe(true);
});
