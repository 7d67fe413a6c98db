import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { AT_ONCE } from "../../../src/bodies/body-reader.ts";
import { type GatewayUnderTest, startGateway } from "../../support/gateway.ts";
import { send } from "../../support/send.ts";

const INSTRUMENTS = 6_000;
const parse = JSON.parse.bind(JSON);

const instrument = (at: number, padding = 300): string =>
  `{ "id":"I-${at}", "name":"Ünïcode ${at}", "symbol":"S${at}", "decimals": 10, "supportedApis":{}, "x":"${"é".repeat(padding / 2)}", "n": 1.0}`;
const PAGE = Buffer.from(
  `{"instruments":[${Array.from({ length: INSTRUMENTS }, (_none, at) => instrument(at)).join(" ,\n")}]}`,
);
const LARGE_INSTRUMENT = Buffer.from(instrument(99_999, 400_000));
const CONTEXT = Buffer.from(
  `{"factoryId":"f","choiceContextData":{"x":"${"y".repeat(3_000_000)}"},"disclosedContracts":[]}`,
);
const ERROR = Buffer.from(`{"error":"${"no ".repeat(100_000)}"}`);

let registry: Server;
let gateway: GatewayUnderTest;
let received: Buffer | undefined;

function answerOf(registryName: string, path: string): { status: number; body: Buffer; fields?: string[] } {
  if (path.endsWith("/info"))
    return { status: 200, body: Buffer.from(`{"adminId":"${registryName}::1220aa","supportedApis":{}}`) };
  if (path.endsWith("/instruments/I-99999")) return { status: 200, body: LARGE_INSTRUMENT };
  if (path.includes("/instruments/")) return { status: 404, body: Buffer.from('{"error":"no"}') };
  if (path.includes("/instruments")) {
    if (registryName === "small") return { status: 200, body: Buffer.from('{"instruments":[]}') };
    return { status: 200, body: gzipSync(PAGE), fields: ["content-encoding", "gzip", "cache-control", "max-age=60"] };
  }
  if (path.includes("/reject")) return { status: 400, body: ERROR };
  return { status: 200, body: CONTEXT };
}

beforeAll(async () => {
  registry = createServer((request, response) => {
    const [, name = "", path = ""] = /^\/([^/]+)(.*)$/.exec(request.url!) ?? [];
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      if (request.method === "POST") received = Buffer.concat(chunks);
      const { status, body, fields = [] } = answerOf(name, path);
      response.writeHead(status, ["content-type", "application/json", ...fields]);
      response.end(body);
    });
  });
  await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
  gateway = await startGateway({
    limits: { requestBody: "2MiB" },
    upstreams: ["big", "small"].map((name) => ({ name, urls: [`${url}/${name}`] })),
  });
});
afterAll(async () => {
  await gateway.stop();
  registry.close();
});

// What is parsed in the thread of the gateway, which is the test's own, is seen here; it does the same as ever.
const parsed = vi.spyOn(JSON, "parse");
const longestParsed = (): number => Math.max(0, ...parsed.mock.calls.map(([text]) => text.length));
afterEach(() => {
  expect(longestParsed()).toBeLessThanOrEqual(AT_ONCE);
  parsed.mockClear();
});

const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

async function isStored(path: string): Promise<boolean> {
  const { text } = await send(gateway.operations, { path: `/explain?path=${encodeURIComponent(path)}` });
  return (parse(text) as { explanation: { entries: object[] } }).explanation.entries.length > 0;
}

async function countStored(): Promise<number> {
  const { text } = await send(gateway.operations, { path: "/status" });
  return (parse(text) as { cache: { memory: { entries: number } } }).cache.memory.entries;
}

describe("no large body is parsed where requests are served", () => {
  const at = (path: string): string => `/api/token-standard/v0/registrars/big${path}`;

  test("a page goes out byte for byte, and its instruments are hits", async () => {
    const page = await send(gateway.url, { path: at("/registry/metadata/v1/instruments") });
    expect([page.status, page.bytes.equals(PAGE)]).toEqual([200, true]);
    for (const each of [0, 99, 100, 101, 4_999]) {
      const path = at(`/registry/metadata/v1/instruments/I-${each}`);
      // They are stored behind the answer, and who asks sooner gets the registry's own 404, which is newer than the page.
      await expect.poll(() => isStored(path)).toBe(true);
      const one = await send(gateway.url, { path });
      expect(one.text).toBe(instrument(each));
      expect(one.headers["cache-status"]).toMatch(/^registry-gateway; ?hit/);
    }
    // No page fills the memory with more than so many of its instruments: the others are taken out when they are asked for.
    await expect.poll(countStored).toBeGreaterThan(5_000);
    const before = await countStored();
    const last = await send(gateway.url, { path: at("/registry/metadata/v1/instruments/I-5000") });
    expect([last.status, last.text]).toEqual([200, instrument(5_000)]);
    expect(await countStored()).toBe(before + 1);
  });

  test("a page is listed among those of other registries", async () => {
    const ids: string[] = [];
    let pageToken = "";
    do {
      const query = `?pageSize=1000${pageToken === "" ? "" : `&pageToken=${pageToken}`}`;
      const { text } = await send(gateway.url, { path: `/registry/metadata/v1/instruments${query}` });
      const page = parse(text) as { instruments: { id: string; admin: string }[]; nextPageToken?: string };
      ids.push(...page.instruments.map(({ id, admin }) => `${admin} ${id}`));
      pageToken = page.nextPageToken ?? "";
    } while (pageToken !== "");
    expect(ids).toEqual(Array.from({ length: INSTRUMENTS }, (_none, each) => `big::1220aa I-${each}`));
  });

  test("a page is in the catalogue", async () => {
    const search = () =>
      send(gateway.url, { path: `/catalog/v1/instruments?query=${encodeURIComponent("Ünïcode 5999")}` });
    await expect.poll(async () => (await search()).text).toContain('"id":"I-5999"');
  });

  test("an instrument, an answer to a POST and an error go out byte for byte", async () => {
    const single = await send(gateway.url, { path: at("/registry/metadata/v1/instruments/I-99999") });
    expect([single.status, single.bytes.equals(LARGE_INSTRUMENT)]).toEqual([200, true]);
    const merged = await send(gateway.url, { path: "/registry/metadata/v1/instruments/I-99999" });
    expect(merged.text).toBe(LARGE_INSTRUMENT.toString().replace("{", '{"admin":"big::1220aa",'));
    const context = await send(gateway.url, { path: at(ACCEPT), body: "{}" });
    expect([context.status, context.bytes.equals(CONTEXT)]).toEqual([200, true]);
    const refused = await send(gateway.url, { path: at(ACCEPT.replace("accept", "reject")), body: "{}" });
    expect([refused.status, refused.bytes.equals(ERROR)]).toEqual([400, true]);
  });

  test.each([
    "/registry/transfer-instruction/v1/transfer-factory",
    "/registry/transfer-instruction/v2/transfer-factory",
  ])("a request's body reaches the registry of its admin: %s", async (path) => {
    const body = `{"choiceArguments":{"x":[${"{},".repeat(300_000)}"\\u0061"],"expectedAdmin":"big::1220aa"}}`;
    const answer = await send(gateway.url, { path, body });
    expect([answer.status, answer.bytes.equals(CONTEXT), received?.toString() === body]).toEqual([200, true, true]);
    const twice = await send(gateway.url, { path, body: body.replace(/\}\}$/, ',"expected\\u0041dmin":"x"}}') });
    expect([twice.status, twice.text]).toEqual([400, expect.stringContaining("occurs twice")]);
    const broken = await send(gateway.url, { path, body: body.slice(0, -1) });
    expect([broken.status, broken.text]).toEqual([400, expect.stringContaining("not valid JSON")]);
    const other = await send(gateway.url, { path, body: body.replace("big::1220aa", "other::1220aa") });
    expect(other.status).toBe(404);
  });
});
