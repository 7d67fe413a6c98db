import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { TestClock } from "../support/clock.ts";
import { atEnd } from "../support/closing.ts";
import { startRawServer } from "../support/raw.ts";
import { type Canned, partyOf, type Registry, startRegistry, STRANGER } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { resolveTo, type UpstreamHarness, useUpstreams } from "../support/upstream.ts";

/** What changes while a call waits. */

const AMULET = partyOf("amulet");
const INFO = { adminId: AMULET, supportedApis: {} };
const WRONG = { body: { adminId: STRANGER, supportedApis: {} } };
const HOUR = { proofEvery: "1h" };

/** The registry's info comes when this is called. */
function holdInfo(registry: Registry, canned: object = { body: INFO }): () => void {
  const { promise, resolve } = Promise.withResolvers<object>();
  registry.on("info", () => promise);
  return () => {
    registry.on("info", undefined);
    resolve(canned);
  };
}

const stateOf = (gateway: UpstreamHarness) => gateway.upstream().status().state;
const whenUp = (gateway: UpstreamHarness) =>
  until(() =>
    gateway
      .upstream()
      .status()
      .nodes.every(({ state }) => state === "up"),
  );

const whenLimitOpens = (clock: TestClock, gateway: UpstreamHarness) =>
  until(() => (clock.advance(100), gateway.upstream().status().limit!.waiting === 0));

describe("a client that leaves while the info is asked over its connection takes no node out, and no one with it", () => {
  for (const [how, within] of [
    ["its client is gone", 15_000],
    ["its time is over", 300],
  ] as const) {
    test(how, async () => {
      const clock = TestClock.running();
      const registry = await startRegistry();
      const gateway = useUpstreams([registry], { clock });
      await whenUp(gateway);
      clock.advance("6m");
      const release = holdInfo(registry);
      const client = new AbortController();
      const first = gateway.call("transfer_factory", { within, signal: client.signal });
      await registry.reached(2, "info");
      const second = gateway.call("transfer_factory");
      if (how === "its client is gone") client.abort();
      expect((await first).text).toMatch(/client_gone|upstream_timeout/);
      release();
      expect((await second).text).toBe("200");
      expect([stateOf(gateway), registry.count("info")]).toEqual(["up", 2]);
    });
  }
});

describe("a call that waits for the limit", () => {
  test("is not sent to a node that names another admin meanwhile", async () => {
    const clock = TestClock.standing();
    const registry = await startRegistry();
    const keys = { ...HOUR, retries: 0, rateLimit: { requests: "2/1s" } };
    const gateway = useUpstreams([registry.upstream(keys)], { clock });
    await whenUp(gateway);
    clock.advance("6s");
    // Two connections, of which one lasts.
    await Promise.all([1, 2].map(() => gateway.call("transfer_factory")));
    clock.advance("6s");
    registry.reset().on("transfer_factory", "reset");
    const release = holdInfo(registry, WRONG);
    await gateway.call("transfer_factory");
    await registry.reached(1, "info");
    registry.on("transfer_factory", undefined);
    const waiting = gateway.call("transfer_factory");
    await until(() => gateway.upstream().status().limit!.waiting === 1);
    release();
    await until(() => gateway.upstream().status().nodes[0]!.state === "wrong");
    await whenLimitOpens(clock, gateway);
    expect((await waiting).text).toBe("502 wrong_admin");
    expect(registry.count()).toBe(1);
  });

  test("asks for the proof anew that ended meanwhile", async () => {
    const clock = TestClock.standing();
    const registry = await startRegistry();
    const keys = { proofEvery: "10s", rateLimit: { requests: "3/1s" } };
    const gateway = useUpstreams([registry.upstream(keys)], { clock });
    await whenUp(gateway);
    clock.advance("9500ms");
    await Promise.all([1, 2, 3].map(() => gateway.call("transfer_factory")));
    const waiting = gateway.call("transfer_factory");
    await until(() => gateway.upstream().status().limit!.waiting === 1);
    await whenLimitOpens(clock, gateway);
    expect((await waiting).text).toBe("200");
    expect(registry.calls.slice(-2).map(({ operation }) => operation)).toEqual(["info", "transfer_factory"]);
  });

  test("takes another one of the limit where that proof came late", async () => {
    const clock = TestClock.standing();
    const registry = await startRegistry();
    const keys = { proofEvery: "10s", rateLimit: { requests: "2/1s" } };
    const gateway = useUpstreams([registry.upstream(keys)], { clock });
    await whenUp(gateway);
    clock.advance("9500ms");
    await Promise.all([1, 2].map(() => gateway.call("transfer_factory")));
    const release = holdInfo(registry);
    const waiting = [gateway.call("transfer_factory")];
    await until(() => gateway.upstream().status().limit!.waiting === 1);
    await whenLimitOpens(clock, gateway);
    // It was granted with the info that it waits for now.
    await registry.reached(2, "info");
    waiting.push(...[1, 2].map(() => gateway.call("transfer_factory")));
    clock.advance("1200ms");
    release();
    await until(() => registry.count("transfer_factory") === 4);
    await until(() => gateway.upstream().status().limit!.waiting === 1);
    await whenLimitOpens(clock, gateway);
    expect((await Promise.all(waiting)).map(({ text }) => text)).toEqual(["200", "200", "200"]);
  });

  test("goes over another connection where its own was closed meanwhile, a passed-through one, too", async () => {
    const clock = TestClock.standing();
    const registry = await startRegistry();
    const gateway = useUpstreams([registry.upstream({ ...HOUR, rateLimit: { requests: "2/1s" } })], { clock });
    await whenUp(gateway);
    registry.on("transfer_factory", "hang");
    const other = gateway.call("transfer_factory");
    await registry.reached(1);
    const waiting = gateway.call("/registry/drafts/v1/x");
    await until(() => gateway.upstream().status().limit!.waiting === 1);
    await registry.close();
    await other;
    await registry.restart();
    await whenLimitOpens(clock, gateway);
    expect((await waiting).text).toBe("200");
  });

  test("is not sent to a node that answers 429 meanwhile, but waits for a short pause", async () => {
    for (const [fields, text, calls] of [
      [["Retry-After", "30"], "429 upstream_paused", 2],
      [["Content-Type", "text/plain"], "200", 3],
    ] as const) {
      const clock = TestClock.running();
      const registry = await startRegistry();
      const keys = { retries: 0, rateLimit: { requests: "2/300ms" } };
      const gateway = useUpstreams([registry.upstream(keys)], { clock });
      await whenUp(gateway);
      clock.advance("1s");
      registry.on("transfer_factory", { status: 429, fields, body: "busy" });
      const [one, other, late] = [1, 2, 3].map(() => gateway.call("transfer_factory"));
      expect([(await one!).text, (await other!).text]).toEqual(Array(2).fill(expect.stringMatching(/^429/)));
      registry.on("transfer_factory", undefined);
      expect((await late!).text).toBe(text);
      expect(registry.count()).toBe(calls);
    }
  });
});

describe("a 429 of the registry", () => {
  test("that asks for less does not end the pause that another one asked for", async () => {
    const clock = TestClock.running();
    const registry = await startRegistry();
    const gateway = useUpstreams([registry.upstream({ retries: 0 })], { clock });
    await whenUp(gateway);
    const short = Promise.withResolvers<object>();
    registry.on("transfer_factory", () => short.promise);
    const second = gateway.call("transfer_factory");
    await registry.reached(1);
    registry.on("transfer_factory", { status: 429, fields: ["Retry-After", "30"] });
    await gateway.call("transfer_factory");
    short.resolve({ status: 429, fields: ["Content-Type", "text/plain"], body: "busy" });
    await second;
    clock.advance("5s");
    expect((await gateway.call("transfer_factory")).text).toBe("429 upstream_paused");
    expect(registry.count()).toBe(2);
  });

  test("is obeyed by infos, too: one that a broken call calls for is asked after the pause", async () => {
    const clock = TestClock.running();
    const registry = await startRegistry();
    const gateway = useUpstreams([registry.upstream({ retries: 0 })], { clock });
    await whenUp(gateway);
    clock.advance("10s");
    const broken = Promise.withResolvers<"reset">();
    registry.on("transfer_factory", () => broken.promise);
    const second = gateway.call("transfer_factory");
    await registry.reached(1);
    registry.on("transfer_factory", { status: 429, fields: ["Retry-After", "30"] });
    await gateway.call("transfer_factory");
    broken.resolve("reset");
    await second;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(registry.count("info")).toBe(1);
    clock.advance("31s");
    await registry.reached(2, "info");
  });

  test("about a contract pauses nothing, coded gzip as well", async () => {
    const body = gzipSync(JSON.stringify({ error: "ABORTED: the contract is being reassigned" }));
    const registry = await startRegistry();
    registry.on("transfer_factory", { status: 429, fields: ["Content-Encoding", "gzip"], body });
    const gateway = useUpstreams([registry]);
    expect((await gateway.call("transfer_factory")).text).toBe("429");
    expect(gateway.upstream().status().nodes[0]!.pausedUntil).toBeUndefined();
  });

  test("is no disagreement where an agreed call meets the pause behind the limit", async () => {
    const clock = TestClock.running();
    const registry = await startRegistry("amulet", { nodes: 2 });
    const keys = { agreement: 2, rateLimit: { requests: "2/300ms" } };
    const gateway = useUpstreams([registry.upstream(keys)], { clock });
    await whenUp(gateway);
    clock.advance("1s");
    registry.on("transfer_factory", { status: 429, fields: ["Retry-After", "30"], body: "busy" }, 1);
    const [first, second] = [1, 2].map(() => gateway.call("transfer_factory"));
    expect([(await first!).text, (await second!).text]).toEqual(["502 nodes_disagree", "429 upstream_paused"]);
  });

  test("is waited for by an agreement as by any call, where the pause is short", async () => {
    const registry = await startRegistry("amulet", { nodes: 2 });
    const gateway = useUpstreams([registry.upstream({ agreement: 2 })]);
    await whenUp(gateway);
    registry.on("transfer_factory", { status: 429, fields: ["Content-Type", "text/plain"], body: "busy" }, 1);
    expect((await gateway.call("transfer_factory")).text).toBe("502 nodes_disagree");
    registry.on("transfer_factory", undefined, 1);
    expect(await gateway.call("transfer_factory")).toMatchObject({ text: "200", report: { attempts: 2 } });
  });
});

/** A server that answers every request with the same, and counts them; on more addresses than one. */
async function serveAt(hosts: readonly string[], answer: object | undefined) {
  let gate = Promise.resolve();
  const hold = (): (() => void) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    return resolve;
  };
  const seen = { port: 0, requests: 0, answer, hold };
  for (const host of hosts) {
    const server = createServer((_request, response) => {
      seen.requests += 1;
      response.setHeader("content-type", "application/json");
      void gate.then(() => seen.answer && response.end(JSON.stringify(seen.answer)));
    });
    server.listen(seen.port, host);
    await once(server, "listening");
    seen.port = (server.address() as AddressInfo).port;
    atEnd(() => server.close().closeAllConnections());
  }
  return seen;
}

test("a call waits for the pauses of infos that meet a 429 as for one: 2 s in all", async () => {
  const registry = await startRegistry();
  registry.on("info", { status: 429, fields: ["Content-Type", "text/plain"], body: "busy" });
  const gateway = useUpstreams([registry]);
  const { text, took } = await gateway.call("transfer_factory");
  expect(text).toBe("429 upstream_paused");
  expect(took).toBeLessThan(3_500);
  expect(registry.count("info")).toBeLessThanOrEqual(4);
});

describe("a name with several addresses", () => {
  test("at which no info is to be had is a node that is out", async () => {
    const clock = TestClock.running();
    const hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
    const silent = await serveAt(hosts, undefined);
    resolveTo("three.test", () => hosts);
    const urls = [`http://three.test:${silent.port}`];
    const gateway = useUpstreams([{ name: "amulet", admin: AMULET, urls }], { clock });
    for (const infos of [1, 2, 3]) {
      await until(() => silent.requests === infos);
      clock.advance("16s");
    }
    await until(() => stateOf(gateway) === "down");
    expect((await gateway.call("transfer_factory")).text).toBe("503 upstream_down");
  });

  test("is no reason to ask one info after the other through a proxy of that name", async () => {
    const hosts = ["127.0.0.1", "127.0.0.2"];
    const proxy = await serveAt(hosts, { adminId: STRANGER });
    resolveTo("proxy.test", () => hosts);
    const httpProxy = `http://proxy.test:${proxy.port}`;
    const gateway = useUpstreams([{ name: "amulet", admin: AMULET, urls: ["http://registry.example"], httpProxy }]);
    await until(() => gateway.upstream().status().nodes[0]!.state === "wrong");
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(proxy.requests).toBe(1);
  });
});

test("a node that named another admin and is right again is used over new connections, too", async () => {
  const clock = TestClock.running();
  const registry = await startRegistry();
  registry.on("info", WRONG);
  const gateway = useUpstreams([registry], { clock });
  await until(() => gateway.upstream().status().nodes[0]!.state === "wrong");
  registry.on("info", undefined);
  gateway.reload([registry]);
  await whenUp(gateway);
  await registry.close();
  await registry.restart();
  clock.advance("5s");
  expect((await gateway.call("transfer_factory")).text).toBe("200");
});

test("what comes over a connection before anything was asked is no answer, and an unused one is not kept for ever", async () => {
  const clock = TestClock.running();
  const sockets: { socket: Socket; requests: number }[] = [];
  const url = await startRawServer((socket) => {
    const seen = { socket, requests: 0 };
    sockets.push(seen);
    socket.on("data", (data) => {
      seen.requests += 1;
      const body = JSON.stringify(String(data).includes("/info ") ? INFO : {});
      const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`;
      socket.write(`${head}\r\n\r\n${body}`);
    });
  });
  const keys = { name: "amulet", admin: AMULET, urls: [url], ...HOUR, rateLimit: { requests: "3/1m" } };
  const gateway = useUpstreams([keys], { clock });
  await whenUp(gateway);
  // All take a connection, two a call.
  await Promise.all(Array.from({ length: 5 }, () => gateway.call("transfer_factory")));
  const unused = sockets.filter(({ requests }) => requests === 0);
  expect(unused.length).toBeGreaterThan(1);
  for (const { socket } of unused.slice(1)) socket.write("HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n");
  for (const { socket, requests } of sockets) if (requests > 0) socket.destroy();
  await new Promise((resolve) => setTimeout(resolve, 50));
  clock.advance("40s");
  gateway.reload([{ ...keys, rateLimit: { requests: "1000/1m" } }]);
  const texts = [];
  for (let i = 0; i < 5; i += 1) texts.push((await gateway.call("transfer_factory")).text);
  expect(texts).toEqual(Array(5).fill("200"));
  clock.advance("6s");
  await until(() => unused.every(({ socket, requests }) => requests > 0 || socket.destroyed));
});

test("an upstream whose info says, while a call waits for it, that it is another's twin gets no call", async () => {
  const one = await startRegistry("amulet");
  const two = await startRegistry("beryl", { admin: AMULET });
  const release = holdInfo(two);
  const [first, second] = [one, two].map((each) => ({ name: each.name, urls: each.urls }));
  const gateway = useUpstreams([first!, second!]);
  await until(() => gateway.upstream("amulet").admin);
  const waiting = gateway.call("transfer_factory", { name: "beryl" });
  release();
  expect((await waiting).text).toBe("503 upstream_disabled");
  expect(two.count()).toBe(0);
});

test("an info that waits for a token takes nothing from the limit before it has one", async () => {
  const clock = TestClock.running();
  const tokens = await serveAt(["127.0.0.1"], {});
  const registry = await startRegistry();
  const auth = { oauth2: { tokenUrl: `http://127.0.0.1:${tokens.port}/`, clientId: "a", clientSecret: "b" } };
  const gateway = useUpstreams([registry.upstream({ auth, rateLimit: { requests: "2/1h" } })], { clock });
  await until(() => (clock.advance(500), tokens.requests === 4));
  tokens.answer = { access_token: "token", token_type: "Bearer" };
  await until(() => (clock.advance(500), stateOf(gateway) === "up"));
  expect((await gateway.call("transfer_factory")).text).toBe("200");
});

test("a client's id that reads like a field's name does not make the registry's refusal of our credentials its own", async () => {
  const registry = await startRegistry();
  registry.on("transfer_factory", { status: 401, body: { error: "no" } });
  const gateway = useUpstreams([registry.upstream({ auth: { bearer: "ours" } })]);
  const fields = ["x-request-id", "authorization"];
  expect((await gateway.call("transfer_factory", { fields })).text).toBe("502 upstream_credentials");
});

describe("a reload", () => {
  test("of auth leaves the token alone that a call waits for", async () => {
    const clock = TestClock.running();
    const tokens = await serveAt(["127.0.0.1"], { access_token: "token", token_type: "Bearer", expires_in: 60 });
    const registry = await startRegistry();
    const tokenUrl = `http://127.0.0.1:${tokens.port}/`;
    const withScope = (scope: string) =>
      registry.upstream({ auth: { oauth2: { tokenUrl, clientId: "a", clientSecret: "b", scope } }, ...HOUR });
    const gateway = useUpstreams([withScope("one")], { clock });
    await whenUp(gateway);
    clock.advance("2m");
    const release = tokens.hold();
    const waiting = gateway.call("transfer_factory");
    await until(() => tokens.requests === 2);
    gateway.reload([withScope("two")]);
    release();
    expect((await waiting).text).toBe("200");
  });

  test("that changes concurrency counts the calls that run already", async () => {
    const registry = await startRegistry();
    const release = registry.hold("transfer_factory");
    const gateway = useUpstreams([registry.upstream({ concurrency: 3 })]);
    await whenUp(gateway);
    const call = () => gateway.call("transfer_factory");
    const calls = [call(), call(), call()];
    await registry.reached(3);
    gateway.reload([registry.upstream({ concurrency: 2 })]);
    calls.push(call(), call());
    expect((await call()).text).toBe("503 queue_full");
    expect(gateway.upstream().status()).toMatchObject({ inFlight: 3, waiting: 2 });
    gateway.reload([registry.upstream({ concurrency: 4 })]);
    await registry.reached(4);
    expect(gateway.upstream().status()).toMatchObject({ inFlight: 4, waiting: 1 });
    release();
    for (const each of calls) expect((await each).text).toBe("200");
    expect(gateway.upstream().status()).toMatchObject({ inFlight: 0, waiting: 0 });
  });
});

test("what was stored of a registry goes that names another admin through a proxy, over which calls went before", async () => {
  const clock = TestClock.running();
  const proxy = await serveAt(["127.0.0.1"], INFO);
  const httpProxy = `http://127.0.0.1:${proxy.port}`;
  const keys = { name: "amulet", admin: AMULET, urls: ["http://registry.example"], httpProxy };
  const gateway = useUpstreams([keys], { clock });
  await whenUp(gateway);
  expect((await gateway.call("transfer_factory")).text).toBe("200");
  proxy.answer = WRONG.body;
  clock.advance("6m");
  expect((await gateway.call("transfer_factory")).text).toBe("502 wrong_admin");
  expect(gateway.purged).toEqual([AMULET]);
});

test("a 404 to a context that a second node, asked beside a late one, gave as well is asked of no third", async () => {
  const registry = await startRegistry("amulet", { nodes: 4 });
  const gateway = useUpstreams([registry.upstream({ hedgeAfter: "10ms" })]);
  await whenUp(gateway);
  const both = Promise.withResolvers<Canned>();
  registry.on("transfer_accept", () => both.promise);
  const waiting = gateway.call("transfer_accept", { id: "00" });
  await registry.reached(2);
  both.resolve({ status: 404, body: { error: "no such contract" } });
  expect((await waiting).text).toBe("404");
  expect(registry.count()).toBe(2);
});

describe("a name of two addresses, at one of which nobody listens,", () => {
  const hosts = ["127.0.0.1", "127.0.0.9"];
  const start = async (answer: object, clock: TestClock) => {
    const server = await serveAt(["127.0.0.1"], answer);
    resolveTo("dual.test", () => hosts);
    const urls = [`http://dual.test:${server.port}`];
    return { server, gateway: useUpstreams([{ name: "amulet", admin: AMULET, urls, retries: 0 }], { clock }) };
  };

  test("whose info names another admin is wrong until proofEvery is over", async () => {
    const clock = TestClock.running();
    const { server, gateway } = await start(WRONG.body, clock);
    await until(() => gateway.upstream().status().nodes[0]!.state === "wrong");
    for (let i = 0; i < 4; i += 1) {
      clock.advance("30s");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(server.requests).toBe(1);
  });

  test("whose info names another admin when a call asks for it is wrong, and says so", async () => {
    const clock = TestClock.running();
    const { server, gateway } = await start(INFO, clock);
    await whenUp(gateway);
    server.answer = WRONG.body;
    clock.advance("6m");
    expect((await gateway.call("transfer_factory")).text).toBe("502 wrong_admin");
    clock.advance("6s");
    await until(() => gateway.upstream().status().nodes[0]!.state === "wrong");
    expect(server.requests).toBeLessThanOrEqual(3);
  });
});
