import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ClientResponse } from "../../src/http/backlog.ts";
import { requestIdOf } from "../../src/http/context.ts";
import type { Lasting } from "../../src/cache/resource.ts";
import { sendKept } from "../../src/http/kept-answer.ts";
import type { KeptAnswer } from "../../src/http/send.ts";
import type { Snapshot } from "../../src/http/snapshot.ts";
import { mulberry32 } from "../../src/sandbox/random.ts";
import { startGateway } from "../support/gateway.ts";
import { sendRaw } from "../support/raw-connection.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";

/** An answer whose last fields are others in each second. */
function answerOf(status: number, lasting: Lasting, passing: readonly string[], body?: string): KeptAnswer {
  const fields = [...lasting.fields, ...passing];
  return { status, fields, lasting, passing, body: body === undefined ? undefined : Buffer.from(body) };
}

const DATE = ["date", "Thu, 01 Jan 1970 00:00:00 GMT"];
const ENTITY = ["etag", 'W/"a"', "vary", "Accept-Encoding"];
const REFUSED = { fields: ["content-type", "application/json", "retry-after", "5"] };
const LASTING = { fields: [...DATE, ...ENTITY] };
const NOT_MODIFIED = { fields: [...DATE, ...ENTITY] };
const UNDATED = { fields: ENTITY };

const ageOf = (second: number) => ["age", String(second), "cache-status", `a;hit;ttl=${1_000 - second}`];

const refusal = (): KeptAnswer => answerOf(429, REFUSED, [], '{"error":"tier Zürich \u2028 €"}');
const page = (second: number) => answerOf(200, LASTING, ageOf(second), `["${"€".repeat(1_000)}"]`);
const undated = (second: number) => answerOf(200, UNDATED, ageOf(second), "{}");
const notModified = (second: number) => answerOf(304, NOT_MODIFIED, ageOf(second));

const CORS = ["access-control-allow-origin", "*"];
const snapshot = { cors: { answerFields: () => CORS } } as unknown as Snapshot;

let server: Server;
let url: string;
/** What the server answers in a second. */
let answerIn: (second: number) => KeptAnswer;
let second: number;
/** Answers whose head Node made. */
let made: number;
/** What the wall clock is taken to be off by. */
let offset = 0;
/** How the client of each request stands; undefined where it makes no difference who asks. */
let standingOf: ((client: string) => readonly string[]) | undefined;

beforeEach(async () => {
  answerIn = refusal;
  second = 0;
  made = 0;
  offset = 0;
  standingOf = () => ["ratelimit", "a"];
  server = createServer({ keepAliveTimeout: 7_000, ServerResponse: ClientResponse }, (request, response) => {
    const id = requestIdOf(request.headers["x-request-id"]);
    const fields = standingOf?.(String(request.headers["x-client"]));
    const standing = fields && { isOver: true, retryAfter: 5, fields };
    const answer = answerIn(second);
    // What lasts of it is the same object only where heads are to be kept.
    const sent = request.url === "/plain" ? { ...answer, lasting: { fields: answer.lasting.fields } } : answer;
    const writeHead = vi.spyOn(response, "writeHead");
    sendKept(response, sent, { id, snapshot, request, standing, now: Date.now() + offset });
    made += writeHead.mock.calls.length;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  server.close();
  server.closeAllConnections();
});

const LAST = "Connection: close\r\n";

/** Several requests on one connection, the last of which closes it. */
function requests(path: string, count: number, { method = "GET", version = "1.1", fields = "" } = {}): string {
  return Array.from({ length: count }, (_, i) => {
    const own = i === count - 1 ? LAST : fields;
    return `${method} ${path} HTTP/${version}\r\nHost: a\r\nx-request-id: id-${i}\r\n${own}\r\n`;
  }).join("");
}

async function ask(path: string, count: number, form = {}): Promise<string> {
  const { text } = await sendRaw(url, requests(path, count, form));
  const date = /(?<=\r\nDate: )[^\r]*/g;
  for (const [value] of text.matchAll(date)) expect(Math.abs(Date.parse(value) - Date.now())).toBeLessThan(10_000);
  return text.replaceAll(date, "DATE");
}

/** Asks until heads are kept: the last one on a connection, which closes it, never is. */
async function keepHead(): Promise<void> {
  await ask("/kept", 3);
  made = 0;
  await ask("/kept", 5);
  expect(made).toBe(1);
}

describe("under a head that is kept, an answer is, but for its id and date, the bytes that Node makes of it", () => {
  const forms: readonly (readonly [string, object])[] = [
    ["GET", {}],
    ["HEAD", { method: "HEAD" }],
    ["POST", { method: "POST", fields: "Content-Length: 0\r\n" }],
    ["HTTP/1.0", { version: "1.0" }],
    ["HTTP/1.0 that is kept open", { version: "1.0", fields: "Connection: keep-alive\r\n" }],
    ["an expectation", { fields: "Expect: 100-continue\r\n" }],
  ];

  describe.each([
    { what: "a refusal", answer: refusal, standing: () => ["ratelimit", "a"] },
    { what: "a page", answer: page, standing: undefined },
    { what: "a page without a date", answer: undated, standing: undefined },
    { what: "a page for a client with limits", answer: page, standing: () => ["ratelimit", "a"] },
    { what: "a page for a client without", answer: page, standing: () => [] },
    { what: "a page that has not changed", answer: notModified, standing: undefined },
  ])("$what", ({ answer, standing }) => {
    test.each(forms)("%s", async (_what, form) => {
      answerIn = answer;
      standingOf = standing;
      await keepHead();
      for (second of [0, 1, 2, 500]) {
        for (const count of [1, 2, 7]) expect(await ask("/kept", count, form)).toBe(await ask("/plain", count, form));
      }
    });
  });

  test("also where fields come that were not there before", async () => {
    answerIn = page;
    await keepHead();
    answerIn = (at) => answerOf(200, LASTING, [...ageOf(at), "warning", "199 - x"], "{}");
    for (second of [1, 2]) expect(await ask("/kept", 4)).toBe(await ask("/plain", 4));
    answerIn = (at) => answerOf(200, LASTING, ageOf(at).slice(2), "{}");
    for (second of [3, 4]) expect(await ask("/kept", 4)).toBe(await ask("/plain", 4));
  });

  test("an id that is not safe to repeat is replaced", async () => {
    await keepHead();
    for (const id of ["a b", 'a"b', "x".repeat(129), "a\tb", "\xe9"]) {
      const { text } = await sendRaw(url, `GET /kept HTTP/1.1\r\nHost: a\r\nx-request-id: ${id}\r\n${LAST}\r\n`);
      expect(text).toMatch(/\r\nx-request-id: [0-9a-f]{16}-[0-9a-z]+\r\n/);
    }
  });

  test.each([
    ["refusal", refusal],
    ["page without a date", undated],
  ])("a %s has the date of its own second", async (_what, answer) => {
    answerIn = answer;
    await keepHead();
    for (offset of [0, 1_000, 60_000, -60_000, 0]) {
      const now = Date.now() + offset;
      const { text } = await sendRaw(url, requests("/kept", 3));
      const dates = [...text.matchAll(/\r\nDate: (.*)\r\n/g)].map(([, date]) => Date.parse(date!));
      // Of the last one, Node made the head.
      for (const date of dates.slice(0, -1)) {
        expect(date - now).toBeGreaterThan(-1_001);
        expect(date - now).toBeLessThan(10_000);
      }
      expect(dates).toHaveLength(3);
    }
  });

  test("no client gets the limits of another", async () => {
    standingOf = (client) => ["ratelimit", client];
    await keepHead();
    const clients = ["one", "one", "one", "two", "one", "two", "two", "two", "two", "one", "three"];
    const all = clients.map((client) => `GET /kept HTTP/1.1\r\nHost: a\r\nx-client: ${client}\r\n\r\n`).join("");
    const { text } = await sendRaw(url, `${all}GET /kept HTTP/1.1\r\nHost: a\r\n${LAST}\r\n`);
    const told = [...text.matchAll(/\r\nratelimit: (.*)\r\n/g)].map(([, client]) => client);
    expect(told).toEqual([...clients, "undefined"]);
  });
});

test("every refused request has its own id in answer and log, and the same answer but for that", async () => {
  const gateway = await startGateway({
    upstreams: [{ name: "amulet", admin: "a::1220", urls: ["http://127.0.0.1:9"] }],
    clients: { anonymous: "open", tiers: { open: { requests: 1, per: "24h" } } },
  });
  try {
    const { text, statuses } = await sendRaw(gateway.url, requests("/registry/metadata/v1/info", 40));
    expect(statuses.slice(1)).toEqual(Array.from({ length: 39 }, () => 429));
    const ids = Array.from({ length: 39 }, (_, i) => `id-${i + 1}`);
    const heads = text.split("HTTP/1.1 ").slice(2);
    expect(heads.map((head) => /\r\nx-request-id: (.*)\r\n/.exec(head)![1])).toEqual(ids);
    const rest = heads
      .slice(0, -1)
      .map((head) => head.replace(/\r\nx-request-id: .*\r\n/, "").replace(/\r\nDate: .*\r\n/, ""));
    // The bucket fills while the requests come.
    const same = rest.map((head) => head.replaceAll(/(t=|retry-after: |in )\d+/g, "$1n"));
    expect(new Set(same).size).toBe(1);
    expect(same[0]).toContain('{"error":"registry-gateway: this client has sent all');
    const logged = gateway.lines.filter(({ msg, status }) => msg === "request" && status === 429);
    expect(logged.map(({ requestId }) => requestId)).toEqual(ids);
    expect(logged.every(({ bytes }) => bytes === Number(/\r\ncontent-length: (\d+)/.exec(rest[0]!)![1]))).toBe(true);
  } finally {
    await gateway.stop();
  }
});

describe("hits of many kinds on one connection", () => {
  const startRegistry = useSampleRegistries();
  const LIST = "/registry/metadata/v1/instruments";

  test("each is what it is alone", async () => {
    const registry = await startRegistry();
    const gateway = await startGateway({
      upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }],
      cors: { origins: ["https://a.example", "https://b.example"] },
    });
    try {
      const etag = (await fetch(gateway.url + LIST)).headers.get("etag")!;
      const random = mulberry32(7);
      const oneOf = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)]!;
      const kinds = Array.from({ length: 200 }, (_, i) => {
        const fields = [`x-request-id: id-${i}`];
        if (random() < 0.3) fields.push(`if-none-match: ${etag}`);
        const origin = oneOf(["https://a.example", "https://b.example", "https://c.example", ""]);
        if (origin !== "") fields.push(`origin: ${origin}`);
        const path = oneOf([LIST, `${LIST}?pageSize=1`, "/registry/metadata/v1/info", `${LIST}/Amulet`]);
        const allowed = /[ab]\.example$/.test(origin) ? origin : undefined;
        return { method: oneOf(["GET", "GET", "HEAD"]), path, fields, told: [`id-${i}`, allowed] };
      });
      const textOf = ({ method, path, fields }: (typeof kinds)[number], version: string, last: boolean) =>
        `${method} ${path} HTTP/${version}\r\nHost: a\r\n${fields.join("\r\n")}\r\n${last ? LAST : ""}\r\n`;
      for (const kind of kinds.slice(0, 50)) await sendRaw(gateway.url, textOf(kind, "1.0", true));
      let alone = "";
      for (const kind of kinds) alone += (await sendRaw(gateway.url, textOf(kind, "1.0", true))).text;
      for (let round = 0; round < 3; round += 1) {
        const all = kinds.map((kind, i) => textOf(kind, "1.1", i === kinds.length - 1));
        const { text } = await sendRaw(gateway.url, all.join(""));
        expect(timeless(text)).toBe(timeless(alone));
        const heads = text.split("HTTP/1.1 ").slice(1);
        const toldIn = (head: string, name: string) => new RegExp(`\r\n${name}: (.*)\r\n`).exec(head)?.[1];
        const told = heads.map((head) =>
          ["x-request-id", "access-control-allow-origin"].map((name) => toldIn(head, name)),
        );
        expect(told).toEqual(kinds.map((kind) => kind.told));
      }
    } finally {
      await gateway.stop();
    }
  });
});

/** Without what changes by the second, and what a connection alone makes a difference to. */
function timeless(text: string): string {
  return text
    .replaceAll(/\r\n(?:Connection|Keep-Alive): [^\r]*/g, "")
    .replaceAll(/(\r\nage: |max-age=|ttl=|\r\nDate: )[^\r,;]*/g, "$1");
}
