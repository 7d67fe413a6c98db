import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect } from "node:net";
import { describe, expect, test } from "vitest";
import { TestClock } from "../support/clock.ts";
import { atEnd } from "../support/closing.ts";
import { startRawServer } from "../support/raw.ts";
import { partyOf, startRegistry, STRANGER } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { resolveTo, useUpstreams } from "../support/upstream.ts";

const AMULET = partyOf("amulet");
const TLS = new URL("../fixtures/tls/", import.meta.url).pathname;

interface Place {
  readonly host?: string;
  readonly port?: number;
  /** Closes behind each answer: it says so, or does not. */
  readonly closes?: "announced" | "unannounced";
  readonly tls?: boolean;
  readonly takes?: number;
}

/** A registry of another kind than the usual: at any address, closing as it likes. */
async function serve(admin: string, { host = "127.0.0.1", port = 0, closes, tls = false, takes = 0 }: Place = {}) {
  const seen = { infos: 0, calls: 0, port: 0, close: () => Promise.resolve() };
  const listener: RequestListener = (request, response) => {
    const isInfo = request.url!.endsWith("/info");
    if (isInfo) seen.infos += 1;
    else seen.calls += 1;
    request.resume();
    if (closes === "announced") response.setHeader("connection", "close");
    const body = JSON.stringify(isInfo ? { adminId: admin, supportedApis: {} } : { by: admin });
    const answer = (): void => {
      response.setHeader("content-type", "application/json").end(body);
      if (closes === "unannounced") response.on("finish", () => request.socket.end());
    };
    if (takes === 0 || isInfo) answer();
    else setTimeout(answer, takes);
  };
  const pair = { cert: readFileSync(`${TLS}server.pem`), key: readFileSync(`${TLS}server-key.pem`) };
  const server: Server = tls ? createTlsServer(pair, listener) : createServer(listener);
  server.listen(port, host);
  await once(server, "listening");
  seen.port = (server.address() as AddressInfo).port;
  seen.close = async () => {
    server.closeAllConnections();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  };
  atEnd(seen.close);
  return seen;
}

const amulet = (keys: object) => ({ name: "amulet", admin: AMULET, ...keys });

test("a registry that closes behind each answer is asked its info once a second at most, and all calls go through", async () => {
  for (const closes of ["announced", "unannounced"] as const) {
    const registry = await serve(AMULET, { closes });
    const gateway = useUpstreams([amulet({ urls: [`http://127.0.0.1:${registry.port}`] })]);
    const texts = [];
    for (let i = 0; i < 10; i += 1) {
      texts.push((await gateway.call("transfer_factory")).text);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(texts).toEqual(Array(10).fill("200"));
    expect(registry.calls).toBeLessThanOrEqual(closes === "announced" ? 10 : 13);
    expect(registry.infos).toBeLessThanOrEqual(4);
  }
});

test("a TLS registry 100 ms away that closes behind each answer takes one of rateLimit a call, and few infos", async () => {
  const registry = await serve(AMULET, { closes: "announced", tls: true });
  // What travels is 50 ms late, both ways.
  const far = await startRawServer((near) => {
    const behind = connect(registry.port, "127.0.0.1");
    const later = (act: () => void): void => void setTimeout(act, 50);
    near.on("data", (data) => later(() => behind.write(data))).on("close", () => later(() => behind.end()));
    behind.on("data", (data) => later(() => near.write(data))).on("end", () => later(() => near.end()));
    behind.on("error", () => near.destroy());
  });
  const url = far.replace("http", "https");
  const gateway = useUpstreams([
    amulet({ urls: [url], tls: { caFile: `${TLS}ca.pem` }, rateLimit: { requests: "12/1m" } }),
  ]);
  const outcomes = [];
  for (let i = 0; i < 7; i += 1) outcomes.push((await gateway.call("transfer_factory")).text);
  expect(outcomes).toEqual(Array(7).fill("200"));
  expect(registry.calls).toBe(7);
  expect(registry.infos).toBeLessThanOrEqual(5);
});

test("of a name with two addresses, one of another registry, no call reaches the other one", async () => {
  const right = await serve(AMULET, { takes: 30 });
  const wrong = await serve(STRANGER, { host: "127.0.0.2", port: right.port });
  let turn = 0;
  resolveTo("registry.test", () => ((turn += 1) % 2 === 0 ? ["127.0.0.1", "127.0.0.2"] : ["127.0.0.2", "127.0.0.1"]));
  const gateway = useUpstreams([amulet({ urls: [`http://registry.test:${right.port}`] })]);
  for (let round = 0; round < 3; round += 1) {
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => gateway.call("transfer_factory")));
    expect(outcomes.map(({ text }) => text)).toEqual(Array(8).fill("200"));
  }
  expect(right.calls).toBe(24);
  expect(wrong.calls).toBe(0);
  expect(wrong.infos).toBeLessThanOrEqual(2);
});

test("another registry at the same port, 300 ms later, gets no call", async () => {
  const first = await serve(AMULET);
  const gateway = useUpstreams([amulet({ urls: [`http://127.0.0.1:${first.port}`] })]);
  for (let i = 0; i < 5; i += 1) await gateway.call("transfer_factory");
  await first.close();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const second = await serve(STRANGER, { port: first.port });
  const { text, error } = await gateway.call("transfer_factory");
  expect(text).toBe("502 wrong_admin");
  expect(error?.message).not.toContain("127.0.0.1");
  for (let i = 0; i < 5; i += 1) expect((await gateway.call("transfer_factory")).text).toBe("503 upstream_down");
  expect([second.calls, second.infos]).toEqual([0, 1]);
  // It had carried calls: what was stored may be the other one's.
  expect(gateway.purged).toEqual([AMULET]);
  expect(gateway.upstream().status()).toMatchObject({
    state: "down",
    cause: expect.stringContaining("names another admin") as string,
  });
});

test("a node that flips its admin and carried no call empties nothing", async () => {
  const first = await serve(AMULET);
  const gateway = useUpstreams([amulet({ urls: [`http://127.0.0.1:${first.port}`] })]);
  await until(() => gateway.upstream().status().state === "up");
  await first.close();
  await serve(STRANGER, { port: first.port });
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  expect((await gateway.call("transfer_factory")).text).toBe("502 wrong_admin");
  expect(gateway.purged).toEqual([]);
});

test("a node that names another admin is asked again after proofEvery, or at a reload", async () => {
  const clock = TestClock.running();
  const registry = await startRegistry();
  registry.on("info", { body: { adminId: STRANGER } });
  const gateway = useUpstreams([registry], { clock });
  await until(() => gateway.upstream().status().nodes[0]!.state === "wrong");
  clock.advance("4m");
  expect(registry.count("info")).toBe(1);
  clock.advance("1m");
  await until(() => gateway.count("info wrong_admin") === 2);
  registry.on("info", undefined);
  gateway.reload([registry]);
  await until(() => gateway.upstream().status().state === "up");
  expect((await gateway.call("transfer_factory")).text).toBe("200");
});

describe("infos are no more than proofEvery asks for", () => {
  test("many calls at once to a node that nobody has asked yet share one info", async () => {
    const registry = await startRegistry();
    const gateway = useUpstreams([registry]);
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => gateway.call("transfer_factory")));
    expect(outcomes.map(({ text }) => text)).toEqual(Array(20).fill("200"));
    expect(registry.count("info")).toBe(1);
  });

  test("one each proofEvery, however many calls", async () => {
    const clock = TestClock.running();
    const registry = await startRegistry();
    const gateway = useUpstreams([registry], { clock });
    for (let minute = 0; minute < 16; minute += 1) {
      const outcomes = await Promise.all(Array.from({ length: 4 }, () => gateway.call("transfer_factory")));
      expect(outcomes.map(({ text }) => text)).toEqual(Array(4).fill("200"));
      clock.advance("1m");
    }
    expect(registry.count("info")).toBe(4);
  });

  test("each new connection through a proxy is asked itself", async () => {
    const registry = await startRegistry();
    const proxy = await startForwardProxy();
    const gateway = useUpstreams([registry.upstream({ httpProxy: proxy.url })]);
    const outcomes = await Promise.all(Array.from({ length: 4 }, () => gateway.call("transfer_factory")));
    expect(outcomes.map(({ text }) => text)).toEqual(Array(4).fill("200"));
    expect(registry.count("info")).toBeGreaterThanOrEqual(4);
    expect(proxy.targets.every((target) => target.startsWith(registry.url))).toBe(true);
  });
});

/** A proxy that forwards what it gets with a whole URL, over its client's connection each. */
async function startForwardProxy() {
  const targets: string[] = [];
  const server = createServer((request, response) => {
    targets.push(request.url!);
    const { hostname, port, pathname } = new URL(request.url!);
    const body: Buffer[] = [];
    request.on("data", (chunk: Buffer) => body.push(chunk));
    request.on("end", () => {
      void fetch(`http://${hostname}:${port}${pathname}`, {
        method: request.method!,
        ...(request.method === "POST" && {
          body: Buffer.concat(body),
          headers: { "content-type": "application/json" },
        }),
      }).then(async (answer) =>
        response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text()),
      );
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, targets };
}
