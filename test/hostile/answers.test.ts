import { gzipSync } from "node:zlib";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ACCEPT, DRAFT, LIST, PREFIX } from "../support/endpoints.ts";
import { type Registry, startRegistry } from "../support/registry.ts";
import { sendRaw } from "../support/raw.ts";
import { LONGEST_HOLD, LONGEST_HOLD_PER_MIB, pour, Victim } from "./victim.ts";

/** Registries that send what keeps a gateway busy, or full. */

const MIB = 2 ** 20;
const MOST = MIB - 200;

let odd: Registry;
let strict: Registry;
let victim: Victim;
let asked = 0;

beforeAll(async () => {
  odd = await startRegistry("odd", { nodes: 2 });
  strict = await startRegistry("strict");
  victim = await Victim.start({
    upstreams: [
      odd.upstream({ retries: 0, agreement: 2, timeout: "2s", attemptTimeout: "1s", hedgeAfter: "0s" }),
      strict.upstream({ retries: 0, validation: "strict" }),
    ],
    cache: { memory: "32MiB", forwardResponseHeaders: ["x-odd"] },
  });
});

beforeEach(() => {
  odd.reset();
  strict.reset();
});

/** A page that nobody has asked for. */
function page(name = "odd"): string {
  asked += 1;
  return `${PREFIX}/${name}${LIST}?pageToken=t${asked}`;
}

const many = (count: number, text: (at: number) => string): string =>
  Array.from({ length: count }, (_none, at) => text(at)).join();

/** What goes in as a member beside the others of an answer. */
const COSTLY: Record<string, string> = {
  "one long text": `"${"x".repeat(MOST)}"`,
  backslashes: `"${"\\\\".repeat(MOST / 2)}"`,
  "escaped quotes": `"${'\\"'.repeat(MOST / 2)}"`,
  "escaped characters": `"${"\\u0041".repeat(Math.floor(MOST / 6))}"`,
  "arrays within arrays": "[".repeat(MOST / 2) + "]".repeat(MOST / 2),
  "objects within objects": `${'{"a":'.repeat(Math.floor(MOST / 6))}1${"}".repeat(Math.floor(MOST / 6))}`,
  "small objects": `[${"{},".repeat(Math.floor(MOST / 3) - 2)}1]`,
  keys: `{${many(75_000, (at) => `"k${at}":1`)}}`,
  numbers: `[${"1e5,".repeat(MOST / 4 - 2)}1]`,
  "arrays that never end": "[".repeat(MOST),
};

const listed = (at: number): string => `{"id":"i${at}","name":"n${at}","symbol":"s","decimals":1,"supportedApis":{}}`;
const contract = (at: number): string =>
  `{"templateId":"t","contractId":"c${at}","createdEventBlob":"b","synchronizerId":"s"}`;

describe("costly JSON of a registry, a MiB of it, holds nobody for long:", () => {
  const most = LONGEST_HOLD_PER_MIB;

  test.each(Object.entries(COSTLY))("%s", async (_name, member) => {
    const body = `{"instruments":[],"x":${member}}`;
    odd.on("instruments", { body });
    await victim.expectHolds(most, () => victim.ask(page()));
    odd.on("instruments", { status: 500, body });
    await victim.expectHolds(most, () => victim.ask(page()));
  });

  test("instruments, of which one is looked for, and the names are searched", async () => {
    strict.on("instruments", { body: `{"instruments":[${many(13_000, listed)}]}` });
    await victim.expectHolds(most, () => victim.ask(`${PREFIX}/strict${LIST}`));
    await victim.expectHolds(most, () => victim.ask(`${PREFIX}/strict${LIST}/i12999`));
    await victim.expectHolds(most, () => victim.ask("/catalog/v1/instruments?query=n12"));
    expect((await victim.process.site.get(`${PREFIX}/strict${LIST}/i12998`)).text).toBe(listed(12_998));
  });

  test.each([
    ["contracts", `{"choiceContextData":{},"disclosedContracts":[${many(10_000, contract)}]}`],
    ["objects within objects", `{"choiceContextData":${COSTLY["objects within objects"]},"disclosedContracts":[]}`],
    ["keys", `{"choiceContextData":${COSTLY["keys"]},"disclosedContracts":[]}`],
  ])("contexts that two nodes have to agree on, or the schema: %s", async (_name, body) => {
    odd.on("transfer_accept", { body });
    strict.on("transfer_accept", { body });
    // Two answers may come in one turn.
    await victim.expectHolds(2 * most, () => victim.ask(`${PREFIX}/odd${ACCEPT}`, "{}"));
    await victim.expectHolds(most, () => victim.ask(`${PREFIX}/strict${ACCEPT}`, "{}"));
  });
});

const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

describe("a registry that does not come to an end is left, and holds nobody for long:", () => {
  const chunked = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
  // undici makes an error, with its stack, for each field of a packet that comes behind the bound.
  const longest = { fields: 3 * LONGEST_HOLD, others: LONGEST_HOLD };

  test.each([
    { what: "fields", begins: HEAD, goesOn: "a: b\r\n", most: longest.fields },
    { what: "trailers", begins: `${chunked}2\r\n{}\r\n0\r\n`, goesOn: "a: b\r\n", most: longest.fields },
    { what: "interim answers", begins: "", goesOn: "HTTP/1.1 100 Continue\r\n\r\n", most: longest.others },
    { what: "a body", begins: `${HEAD}\r\n`, goesOn: "x", most: longest.others },
    { what: "chunks of a byte", begins: chunked, goesOn: "1\r\na\r\n", most: longest.others },
    { what: "the size of a chunk", begins: chunked, goesOn: "0", most: longest.others },
  ])("$what", async ({ begins, goesOn, most }) => {
    const block = goesOn.repeat(65_536 / goesOn.length);
    odd.on("instruments", (_call, response) => {
      response.socket!.write(begins);
      pour(response.socket!, block);
      return "hang";
    });
    const outcomes: string[] = [];
    await victim.expectHolds(most, async () => outcomes.push(await victim.ask(page())));
    for (const outcome of outcomes)
      expect(outcome).toMatch(/^(502 upstream_(too_large|invalid|reset)|504 upstream_timeout)$/);
  });

  test("a body that comes slowly, a byte at a time", async () => {
    odd.on("instruments", (_call, response) => {
      const { socket } = response;
      socket!.write(`${HEAD}Content-Length: ${MOST}\r\n\r\n`);
      const timer = setInterval(() => socket!.write("x"), 2);
      socket!.on("close", () => clearInterval(timer)).on("error", () => undefined);
      return "hang";
    });
    let outcome = "";
    await victim.expectHolds(LONGEST_HOLD, async () => (outcome = await victim.ask(page())));
    expect(outcome).toBe("504 upstream_timeout");
  });

  test.each([1, 2, 3])("a body that grows a thousand times when its coding is undone, %i times", async (times) => {
    let body: Buffer = Buffer.alloc(64 * MIB, " ");
    for (let at = 0; at < times; at += 1) body = gzipSync(body);
    const fields = ["Content-Encoding", Array.from({ length: times }, () => "gzip").join(", ")];
    odd.on("instruments", { fields, body });
    let outcome = "";
    await victim.expectHolds(LONGEST_HOLD, async () => (outcome = await victim.ask(page())));
    expect(outcome).toBe("502 upstream_too_large");
  });
});

/** Nearly all that a head may have. */
const LONG = 30_000;
const times = (text: string): string => text.repeat(Math.floor(LONG / text.length));
/** The same field as often as a head has room for it. */
const often = (name: string, value: string): string[] =>
  Array.from({ length: Math.floor(LONG / (name.length + value.length + 4)) }, () => [name, value]).flat();

const FIELDS: Record<string, readonly string[]> = {
  "Cache-Control of quotes that never close": ["Cache-Control", times('a="')],
  "Cache-Control of escapes": ["Cache-Control", `a="${times('\\"')}`],
  "Cache-Control of names": ["Cache-Control", times("a,")],
  "Cache-Control of equals signs": ["Cache-Control", times("a=")],
  "Cache-Control of spaces": ["Cache-Control", `max-age=1${times(" ")}x`],
  "Vary of names": ["Vary", times("a, ")],
  "Vary of spaces": ["Vary", `a${times(" ")}b`],
  "ETag of quotes": ["ETag", times('"')],
  "Connection of spaces": ["Connection", `a${times(" ")},b`],
  "Retry-After of digits": ["Retry-After", times("1")],
  "Expires of letters": ["Expires", times("F")],
  "Date of letters": ["Date", times("F")],
  "Age of members": ["Age", times("1,")],
  "Content-Type of words": ["Content-Type", times("html ")],
  "Content-Encoding of codings": ["Content-Encoding", times("gzip, ")],
  "Traceparent of digits": ["Traceparent", times("0")],
  "a field of ours to pass on": ["X-Odd", times("\u00e4")],
  "Link, thousands of times": often("Link", "b"),
  "ETag, thousands of times": often("ETag", '"a"'),
  "Expires, a thousand times": often("Expires", "Fri, 20 Nov 2026 10:00:00 GMT"),
  "thousands of fields": Array.from({ length: 3_000 }, (_none, at) => [`a${at}`, "b"]).flat(),
};

test.each(Object.entries(FIELDS))("a head of 30 kB holds nobody for long: %s", async (_name, fields) => {
  const { url } = victim.process.site;
  const statuses: number[] = [];
  const ask = async (request: string): Promise<void> => {
    statuses.push(...(await sendRaw(url, `${request}Host: a\r\nConnection: close\r\n\r\n`)).statuses);
  };
  await victim.expectHolds(LONGEST_HOLD, async () => {
    strict.on("*", { fields, body: { instruments: [] } });
    await ask(`GET ${page("strict")} HTTP/1.1\r\n`);
    await ask(`GET ${PREFIX}/strict${DRAFT} HTTP/1.1\r\n`);
    await ask(`POST ${PREFIX}/strict${ACCEPT} HTTP/1.1\r\nContent-Length: 0\r\n`);
    for (const status of [400, 404, 500]) {
      strict.on("*", { status, fields, body: "no" });
      await ask(`GET ${page("strict")} HTTP/1.1\r\n`);
    }
  });
  for (const status of statuses) expect([200, 400, 404, 500, 502]).toContain(status);
});

const TEXTS: Record<string, string> = {
  words: "a ".repeat(MIB / 2),
  spaces: " ".repeat(MIB),
  "one word": "a".repeat(MIB),
  addresses: "http://1.2.3.4:80/ ".repeat(MIB / 19),
  dots: "a.".repeat(MIB / 2),
  colons: "a:".repeat(MIB / 2),
  slashes: "a/b\\".repeat(MIB / 4),
  tags: "<".repeat(MIB),
  "line ends": "\r\n".repeat(MIB / 2),
  "a text in JSON": JSON.stringify({ error: "a:/. ".repeat(MIB / 5) }),
};

test.each(Object.entries(TEXTS))("an error of 1 MiB holds nobody for long: %s", async (_name, body) => {
  for (const status of [400, 404, 429, 503]) {
    strict.on("*", { status, body, fields: ["Content-Type", "text/plain", "Retry-After", "0"] });
    await victim.expectHolds(LONGEST_HOLD, () => victim.ask(page("strict")));
    await victim.expectHolds(LONGEST_HOLD, () => victim.ask(`${PREFIX}/strict${ACCEPT}`, "{}"));
  }
});
