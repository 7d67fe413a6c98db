import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { createSecureServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import type { CacheContents, ExplainAnswer } from "../../src/operations/answers.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { startRawServer } from "../support/raw-server.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/until.ts";

const INFO = "/registry/metadata/v1/info";
const OPERATOR = "/api/utilities/v0/operator";
const OTHER = "/api/utilities/v0/registrars";
const ADMINS = { amulet: "amulet::1220aa", bonds: "bonds::1220bb" } as const;
type Name = keyof typeof ADMINS;

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

/** One registry that answers its extra paths as `answer` says, and what it was asked of them. */
async function registry(name: Name, answer: RequestListener) {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    request.resume();
    if (request.url === INFO) return void response.end(JSON.stringify({ adminId: ADMINS[name], supportedApis: {} }));
    asked.push(request);
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => server.close());
  return { name, asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

type Registry = Awaited<ReturnType<typeof registry>>;

function saying(
  fields: Record<string, string>,
  body: string | Buffer = '{ "partyId":"operator::1220" }',
): RequestListener {
  return (_request, response) =>
    void response.writeHead(200, { "content-type": "application/json", ...fields }).end(body);
}

async function gatewayOf(registries: readonly Registry[], keys: Record<string, unknown> = {}, clock?: ManualClock) {
  const { upstream = {}, ...others } = keys as { readonly upstream?: object };
  const upstreams = registries.map(({ name, url }) => ({
    name,
    admin: ADMINS[name],
    urls: [url],
    extraPaths: [OPERATOR, OTHER],
    ...upstream,
  }));
  const gateway = await startGateway({ upstreams, ...others }, clock === undefined ? {} : { clock });
  closing.push(() => gateway.stop());
  return gateway;
}

async function ask(gateway: GatewayUnderTest, path = OPERATOR, init: RequestInit = {}) {
  const answer = await fetch(path.startsWith("/") ? gateway.url + path : path, init);
  const bytes = Buffer.from(await answer.arrayBuffer());
  return { status: answer.status, bytes, text: bytes.toString(), field: (name: string) => answer.headers.get(name) };
}

async function purge({ operations }: GatewayUnderTest, body: object): Promise<void> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${operations}/purge`, { method: "POST", headers, body: JSON.stringify(body) });
  expect(answer.status).toBe(200);
}

test.each([
  { "cache-control": "max-age=60" },
  { "cdn-cache-control": "max-age=60", "cache-control": "no-store" },
  { "registry-gateway-cache-control": "max-age=60" },
])("an extra path is kept as long as its registry says: %j", async (fields) => {
  const clock = new ManualClock();
  const amulet = await registry("amulet", saying(fields));
  const gateway = await gatewayOf([amulet], { cache: { staleWhileRevalidate: "0s" } }, clock);
  const first = await ask(gateway);
  expect(first.text).toBe('{ "partyId":"operator::1220" }');
  expect(first.field("cache-status")).toContain("fwd=uri-miss");
  clock.advance(40_000);
  const second = await ask(gateway, gateway.registrar("amulet") + OPERATOR);
  expect([second.text, second.field("age")]).toEqual([first.text, "40"]);
  expect(second.field("cache-status")).toMatch(/hit;ttl=(19|20)/);
  expect(second.field("content-security-policy")).toContain("default-src 'none'");
  expect(amulet.asked).toHaveLength(1);
  clock.advance(21_000);
  await ask(gateway);
  expect(amulet.asked).toHaveLength(2);
});

test.each([
  [{}, 200],
  [{ "cache-control": "no-cache" }, 200],
  [{ "cache-control": "no-store, max-age=60" }, 200],
  [{ "cache-control": "private, max-age=60" }, 200],
  [{ "cache-control": "max-age=60", vary: "*" }, 200],
  [{ "cache-control": "max-age=60", "set-cookie": "a=b" }, 200],
  [{ "cache-control": "max-age=60" }, 203],
  [{ "cache-control": "max-age=60" }, 404],
  [{ "cache-control": "max-age=60" }, 500],
  [{ "last-modified": "Tue, 01 Jan 2019 00:00:00 GMT" }, 200],
])("with %j and status %i each GET of an extra path goes to the registry", async (fields, status) => {
  const amulet = await registry("amulet", (_request, response) => {
    response
      .writeHead(status, { "content-type": "text/x-odd; charset=koi8-r", ...fields })
      .end(Buffer.from([0, 255, 10]));
  });
  const gateway = await gatewayOf([amulet]);
  for (let i = 1; i <= 3; i++) {
    const answer = await ask(gateway);
    expect([answer.status, [...answer.bytes]]).toEqual([status, [0, 255, 10]]);
    expect(answer.field("content-type")).toBe("text/x-odd; charset=koi8-r");
    expect(answer.field("set-cookie")).toBeNull();
    expect(amulet.asked).toHaveLength(i);
  }
});

test("GETs of an extra path at the same time are one call where the answer is fresh, and each its own where nothing says so", async () => {
  const held: (() => void)[] = [];
  let fields: Record<string, string> = { "cache-control": "max-age=60" };
  const amulet = await registry(
    "amulet",
    (request, response) => void held.push(() => saying(fields)(request, response)),
  );
  const gateway = await gatewayOf([amulet]);
  const inFlight = async () => {
    const text = await (await fetch(`${gateway.operations}/metrics`)).text();
    return Number(/^registry_gateway_requests_in_flight (\d+)/m.exec(text)![1]);
  };
  const callsOf = async (clients: number) => {
    const before = amulet.asked.length;
    let answered = 0;
    const answers = Array.from({ length: clients }, () => ask(gateway).finally(() => (answered += 1)));
    await until(async () => (await inFlight()) === clients && held.length > 0);
    await until(() => {
      for (const answer of held.splice(0)) answer();
      return answered === clients;
    });
    for (const { text } of await Promise.all(answers)) expect(text).toBe('{ "partyId":"operator::1220" }');
    return amulet.asked.length - before;
  };
  expect(await callsOf(8)).toBe(1);
  await purge(gateway, { upstream: "amulet" });
  fields = {};
  expect(await callsOf(8)).toBe(8);
});

test("an extra path answers 304 to who has it, and is confirmed by the registry's 304 when it is stale", async () => {
  const clock = new ManualClock();
  const amulet = await registry("amulet", (request, response) => {
    if (request.headers["if-none-match"] === '"one"')
      response.writeHead(304, { etag: '"one"', "cache-control": "max-age=60" }).end();
    else saying({ etag: '"one"', "cache-control": "max-age=60" })(request, response);
  });
  const gateway = await gatewayOf([amulet], { cache: { staleWhileRevalidate: "0s" } }, clock);
  const { text } = await ask(gateway);
  const known = await ask(gateway, OPERATOR, { headers: { "if-none-match": '"one"' } });
  expect([known.status, known.text]).toEqual([304, ""]);
  expect(amulet.asked).toHaveLength(1);
  clock.advance(61_000);
  const renewed = await ask(gateway);
  expect([renewed.status, renewed.text]).toEqual([200, text]);
  expect(renewed.field("cache-status")).toContain("fwd=stale;fwd-status=304");
  expect(amulet.asked[1]!.headers["if-none-match"]).toBe('"one"');
  expect((await ask(gateway)).field("cache-status")).toContain("hit");
  expect(amulet.asked).toHaveLength(2);
});

test("a client's condition and range go to no registry with an extra path", async () => {
  const amulet = await registry("amulet", saying({ etag: '"one"' }));
  const gateway = await gatewayOf([amulet]);
  const headers = { range: "bytes=0-1", "if-none-match": '"two"', "cache-control": "no-cache" };
  expect((await ask(gateway, OPERATOR, { headers })).text).toBe('{ "partyId":"operator::1220" }');
  expect(Object.keys(amulet.asked[0]!.headers)).not.toEqual(expect.arrayContaining(["range"]));
  expect(amulet.asked[0]!.headers["if-none-match"]).toBeUndefined();
});

test("a purge of an upstream forgets its extra paths alone", async () => {
  const registries = await Promise.all([
    registry("amulet", saying({ "cache-control": "max-age=60" }, '"a"')),
    registry("bonds", saying({ "cache-control": "max-age=60" }, '"b"')),
  ]);
  const [amulet, bonds] = registries;
  const gateway = await gatewayOf(registries);
  const all = async () => {
    for (const name of ["amulet", "bonds"]) {
      const text = name === "amulet" ? '"a"' : '"b"';
      expect((await ask(gateway, gateway.registrar(name) + OPERATOR)).text).toBe(text);
      expect((await ask(gateway, OPERATOR, { headers: { "x-instrument-admin": name } })).text).toBe(text);
    }
    return [amulet.asked.length, bonds.asked.length];
  };
  expect(await all()).toEqual([1, 1]);
  expect((await ask(gateway)).status).toBe(400);
  await purge(gateway, { upstream: "amulet", endpoint: "info" });
  expect(await all()).toEqual([1, 1]);
  await purge(gateway, { upstream: "amulet" });
  expect(await all()).toEqual([2, 1]);
  await purge(gateway, { soft: true });
  await ask(gateway, gateway.registrar("bonds") + OPERATOR);
  await until(() => bonds.asked.length === 2);
});

test("one extra path is not taken for another, nor for itself with a query", async () => {
  const amulet = await registry("amulet", (request, response) => {
    saying({ "cache-control": "max-age=60" }, JSON.stringify(request.url))(request, response);
  });
  const gateway = await gatewayOf([amulet]);
  for (const path of [OPERATOR, OTHER, `${OPERATOR}?party=a`, `${OPERATOR}?party=b`, OPERATOR]) {
    expect((await ask(gateway, path)).text).toBe(JSON.stringify(path));
  }
  expect(amulet.asked.map(({ url }) => url)).toEqual([OPERATOR, OTHER, `${OPERATOR}?party=a`, `${OPERATOR}?party=b`]);
});

test("an answer that was asked for with an Authorization or another Accept serves nobody else", async () => {
  const amulet = await registry("amulet", (request, response) => {
    const { accept, authorization } = request.headers;
    saying({ "cache-control": "max-age=60" }, JSON.stringify([accept, authorization]))(request, response);
  });
  const gateway = await gatewayOf([amulet], { upstream: { forwardAuthorization: "calls" } });
  const asking = async (headers: Record<string, string>) =>
    JSON.parse((await ask(gateway, OPERATOR, { headers })).text);
  const accept = "application/json";
  for (let i = 0; i < 2; i++) {
    expect(await asking({ accept, authorization: "Bearer one" })).toEqual([accept, "Bearer one"]);
    expect(await asking({ accept, authorization: "Bearer two" })).toEqual([accept, "Bearer two"]);
    expect(await asking({ accept })).toEqual([accept, null]);
    expect(await asking({ accept: "text/html" })).toEqual(["text/html", null]);
  }
  expect(amulet.asked).toHaveLength(6);
});

test("a client's Authorization goes nowhere with an extra path unless it is forwarded, and keeps nothing from being kept", async () => {
  const amulet = await registry("amulet", saying({ "cache-control": "max-age=60" }));
  const gateway = await gatewayOf([amulet]);
  for (const name of ["one", "two"]) await ask(gateway, OPERATOR, { headers: { authorization: `Bearer ${name}` } });
  expect(amulet.asked).toHaveLength(1);
  expect(amulet.asked[0]!.headers.authorization).toBeUndefined();
});

test("replicas share an extra path through Redis, and a purge of one is a purge of both", async () => {
  const redis = await startRedis();
  closing.push(() => redis.stop());
  const amulet = await registry("amulet", saying({ "cache-control": "max-age=60" }));
  const keys = { redis: { url: redis.url } };
  const [one, two] = [await gatewayOf([amulet], keys), await gatewayOf([amulet], keys)];
  await ask(one);
  await until(async () => (await redis.client.keys("rg:{*}:6:*")).length > 0);
  expect((await ask(two)).field("cache-status")).toContain("detail=shared");
  expect(amulet.asked).toHaveLength(1);
  await purge(two, { upstream: "amulet" });
  await until(async () => !(await ask(one)).field("cache-status")!.includes("hit"));
  expect(amulet.asked).toHaveLength(2);
});

test("an extra path that is stale stands in for a registry that fails, and one cut off is 502 and not kept", async () => {
  const clock = new ManualClock();
  let answer: RequestListener = saying({ "cache-control": "max-age=60" });
  const amulet = await registry("amulet", (request, response) => answer(request, response));
  const gateway = await gatewayOf([amulet], { cache: { staleWhileRevalidate: "0s" } }, clock);
  answer = (_request, response) => {
    response.writeHead(200, { "cache-control": "max-age=60", "content-length": "1000" });
    response.write('{"partyId":');
    setImmediate(() => response.destroy());
  };
  expect((await ask(gateway)).status).toBe(502);
  answer = saying({ "cache-control": "max-age=60" });
  expect((await ask(gateway)).status).toBe(200);
  clock.advance(61_000);
  answer = (_request, response) => void response.writeHead(503).end("away");
  const stale = await ask(gateway);
  expect([stale.status, stale.text]).toEqual([200, '{ "partyId":"operator::1220" }']);
  expect(stale.field("cache-status")).toContain("detail=stale-if-error");
});

test("an extra path that redirects is 502, one that is too large is 502, and a HEAD is 405", async () => {
  let answer: RequestListener = (_request, response) =>
    void response.writeHead(302, { location: "http://127.0.0.1:1/", "cache-control": "max-age=60" }).end();
  const amulet = await registry("amulet", (request, response) => answer(request, response));
  const gateway = await gatewayOf([amulet], { limits: { responseBody: "64KiB" } });
  expect((await ask(gateway)).status).toBe(502);
  answer = (_request, response) =>
    void response.writeHead(200, { "cache-control": "max-age=60" }).end(Buffer.alloc(70_000));
  expect((await ask(gateway)).status).toBe(502);
  const head = await ask(gateway, OPERATOR, { method: "HEAD" });
  expect([head.status, head.field("allow")]).toEqual([405, "GET, OPTIONS"]);
  expect(amulet.asked).toHaveLength(2);
});

test("nothing of an extra path is kept that has the form of another endpoint's answer, or where nodes have to agree", async () => {
  const info = JSON.stringify({ adminId: ADMINS.amulet, supportedApis: {} });
  const amulet = await registry("amulet", saying({ "cache-control": "max-age=60" }, info));
  const gateway = await gatewayOf([amulet]);
  for (let i = 1; i <= 2; i++) {
    expect((await ask(gateway)).text).toBe(info);
    expect(amulet.asked).toHaveLength(i);
  }
  const bonds = await registry("bonds", saying({ "cache-control": "max-age=60" }));
  const urls = [bonds.url, bonds.url.replace("127.0.0.1", "localhost")];
  const agreeing = await gatewayOf([bonds], { upstream: { urls, agreement: { metadata: 2 } } });
  for (let i = 1; i <= 2; i++) {
    expect((await ask(agreeing)).status).toBe(200);
    expect(bonds.asked).toHaveLength(i);
  }
});

test("operators see what is kept of an extra path, and why", async () => {
  const amulet = await registry("amulet", saying({ "cache-control": "max-age=60" }));
  const gateway = await gatewayOf([amulet]);
  await ask(gateway);
  const read = async <T>(path: string) => (await (await fetch(gateway.operations + path)).json()) as T;
  const { groups, selected } = await read<CacheContents>("/cache?upstream=amulet");
  expect(groups).toMatchObject([{ upstream: "amulet", kind: "extra_path", entries: 1 }]);
  expect(selected).toMatchObject({ entries: 1 });
  const explain = (path: string) => read<ExplainAnswer>(`/explain?path=${encodeURIComponent(path)}`);
  const kept = await explain(OPERATOR);
  expect(kept).toMatchObject({ upstream: "amulet", operation: "pass_through", cached: true });
  expect(kept.explanation!.entries).toMatchObject([{ status: 200, origins: { lifetime: "cache-control: max-age" } }]);
  const asked = await explain(`${OPERATOR}?a=b`);
  expect([asked.cached, asked.reason]).toEqual([false, expect.stringContaining("with a query")]);
});

test.each<[string, number, Record<string, string>, (stream: ServerHttp2Stream) => void]>([
  ["breaks off with NO_ERROR is not", 2, {}, (stream) => stream.write("pay 1000", () => stream.destroy())],
  [
    "breaks off so behind its last byte is",
    1,
    { "content-length": "8" },
    (stream) => stream.write("pay 1000", () => stream.destroy()),
  ],
  ["ends, without a length, is", 1, {}, (stream) => stream.end("pay 1000000")],
])("an answer of an extra path over HTTP/2 that %s kept", async (_how, calls, fields, answer) => {
  const file = (name: string) => join(import.meta.dirname, "../fixtures/tls", name);
  const server = createSecureServer({
    cert: readFileSync(file("server.pem")),
    key: readFileSync(file("server-key.pem")),
  });
  let asked = 0;
  server.on("stream", (stream, headers) => {
    if (headers[":path"] === INFO) {
      stream.respond({ ":status": 200, "content-type": "application/json" });
      return void stream.end(JSON.stringify({ adminId: ADMINS.amulet, supportedApis: {} }));
    }
    asked += 1;
    stream.respond({ ":status": 200, "content-type": "text/plain", "cache-control": "max-age=60", ...fields });
    answer(stream);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => server.close());
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const gateway = await gatewayOf([{ name: "amulet", asked: [], url }], {
    upstream: { tls: { caFile: file("ca.pem") } },
  });
  for (let i = 0; i < 2; i++) expect((await ask(gateway)).text).toContain("pay");
  expect(asked).toBe(calls);
});

test.each([
  ["", 2],
  ["transfer-encoding: identity\r\n", 2],
  ["content-length: 8\r\n", 1],
])(
  "an answer over HTTP/1.1 with the field %j that ends with its connection: two requests are %i calls",
  async (field, calls) => {
    let asked = 0;
    const server = await startRawServer((socket) => {
      socket.on("data", (chunk: Buffer) => {
        if (chunk.toString("latin1").startsWith(`GET ${INFO} `)) {
          const info = JSON.stringify({ adminId: ADMINS.amulet, supportedApis: {} });
          return void socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${info.length}\r\n\r\n${info}`);
        }
        asked += 1;
        socket.end(`HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncache-control: max-age=60\r\n${field}\r\npay 1000`);
      });
    });
    const gateway = await gatewayOf([{ name: "amulet", asked: [], url: `http://127.0.0.1:${server.port}` }]);
    for (let i = 0; i < 2; i++) expect((await ask(gateway)).text).toBe("pay 1000");
    expect(asked).toBe(calls);
  },
);
