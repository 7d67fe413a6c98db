import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { TestClock } from "../support/clock.ts";
import { atEnd } from "../support/closing.ts";
import { startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { resolveTo, useUpstreams } from "../support/upstream.ts";

const TLS = new URL("../fixtures/tls/", import.meta.url).pathname;
const pem = (name: string) => readFileSync(`${TLS}${name}.pem`);

describe("names and addresses", () => {
  test("a name that does not resolve is 502, and says that", async () => {
    resolveTo("gone.test", () => []);
    const gateway = useUpstreams([{ name: "amulet", admin: "a::1220", urls: ["http://gone.test"] }]);
    const { text, error } = await gateway.call("transfer_factory");
    expect([text, error?.proxyError]).toEqual(["502 upstream_unreachable", "dns_error"]);
    expect(error?.message).not.toContain("gone.test");
  });

  test("a name that resolves to a new address is followed at the next connection", async () => {
    const [old, young] = [await startRegistry("amulet"), await startRegistry("amulet", { host: "127.0.0.1" })];
    let address = "127.0.0.1";
    resolveTo("registry.test", () => [address]);
    const port = old.nodes[0]!.port;
    const moved = createTcpServer((near) => relay(near, young.nodes[0]!.port));
    moved.listen(port, "127.0.0.3");
    await once(moved, "listening");
    atEnd(() => moved.close());
    const gateway = useUpstreams([old.upstream({ urls: [`http://registry.test:${port}`] })]);
    expect((await gateway.call("transfer_factory")).text).toBe("200");
    address = "127.0.0.3";
    await old.close();
    for (let i = 0; i < 3; i += 1) expect((await gateway.call("transfer_factory")).text).toBe("200");
    expect([old.count(), young.count()]).toEqual([1, 3]);
  });

  test.each(["dead", "silent"])("of two addresses, one %s, all calls are answered by the other", async (kind) => {
    const clock = TestClock.running();
    const registry = await startRegistry();
    const { port } = registry.nodes[0]!;
    resolveTo("registry.test", () => ["127.0.0.1", "127.0.0.4"]);
    if (kind === "silent") {
      const silent = createTcpServer(() => undefined);
      silent.listen(port, "127.0.0.4");
      await once(silent, "listening");
      atEnd(() => silent.close());
    }
    const gateway = useUpstreams([registry.upstream({ urls: [`http://registry.test:${port}`], timeout: "10m" })], {
      clock,
    });
    for (let i = 0; i < 6; i += 1) {
      const called = gateway.call("transfer_factory", { within: 600_000 });
      const isEnded = called.then(() => true);
      while (!(await Promise.race([isEnded, new Promise<false>((resolve) => setTimeout(() => resolve(false), 60))])))
        clock.advance("5s");
      expect((await called).text).toBe("200");
    }
  });
});

describe("a lookup that takes its time", () => {
  test("runs once for all who wait for its name, so that names of other registries find a thread", async () => {
    const registry = await startRegistry();
    let [asked, answering] = [0, Promise.resolve()];
    resolveTo("slow.test", async () => {
      asked += 1;
      await answering;
      return ["127.0.0.1"];
    });
    const gateway = useUpstreams([registry.upstream({ urls: [`http://slow.test:${registry.nodes[0]!.port}`] })]);
    expect((await gateway.call("transfer_factory")).text).toBe("200");
    const before = asked;
    const { promise, resolve } = Promise.withResolvers<void>();
    answering = promise;
    // One of them has a connection.
    const calls = Array.from({ length: 8 }, () => gateway.call("transfer_factory"));
    await new Promise((done) => setTimeout(done, 50));
    expect(asked - before).toBe(1);
    resolve();
    for (const called of calls) expect((await called).text).toBe("200");
    // What was found is not kept: the next connection asks anew.
    await registry.close();
    await registry.restart();
    await until(async () => (await gateway.call("transfer_factory")).text === "200");
    expect(asked - before).toBeGreaterThan(1);
  });

  test("of a name that does not resolve is 502 for all who waited", async () => {
    const waiting = Promise.withResolvers<void>();
    resolveTo("gone.test", async () => {
      await waiting.promise;
      return [];
    });
    const gateway = useUpstreams([{ name: "amulet", admin: "a::1220", urls: ["http://gone.test"] }]);
    const calls = Array.from({ length: 4 }, () => gateway.call("transfer_factory"));
    waiting.resolve();
    for (const called of calls) expect((await called).error?.proxyError).toBe("dns_error");
  });
});

test("a registry with one dead address is reached over a handshake that takes longer than Node's 250 ms", async () => {
  const registry = await startRegistry();
  const { port } = registry.nodes[0]!;
  resolveTo("far.test", () => ["127.0.0.1", "127.0.0.9"]);
  // Addresses are tried in random order: this one, in which the dead one is the last, was fatal.
  const { random } = Math;
  let drawn = 0;
  Math.random = () => (drawn += 1e-6);
  atEnd(() => (Math.random = random));
  stretchHandshakes(port, { "127.0.0.1": 400, "127.0.0.9": Infinity });
  const gateway = useUpstreams([registry.upstream({ urls: [`http://far.test:${port}`], timeout: "2s" })]);
  expect((await gateway.call("transfer_factory", { within: 2_000 })).text).toBe("200");
});

describe("TLS", () => {
  test("a registry is trusted by its caFile, and shown the certificate of certFile and keyFile", async () => {
    const registry = await startRegistry("amulet", {
      tls: { cert: pem("server"), key: pem("server-key") },
      host: "localhost",
    });
    const tls = { caFile: `${TLS}ca.pem`, certFile: `${TLS}client.pem`, keyFile: `${TLS}client-key.pem` };
    const gateway = useUpstreams([registry.upstream({ tls })]);
    expect((await gateway.call("transfer_factory")).text).toBe("200");
  });

  test("a registry that speaks no TLS is 502", async () => {
    const registry = await startRegistry();
    const gateway = useUpstreams([registry.upstream({ urls: [registry.url.replace("http:", "https:")] })]);
    expect((await gateway.call("transfer_factory")).text).toBe("502 upstream_tls");
  });
});

describe("an HTTP proxy", () => {
  test("tunnels to a registry with TLS, and is shown its login", async () => {
    const registry = await startRegistry("amulet", { tls: { cert: pem("server"), key: pem("server-key") } });
    const seen: { target: string; login: string | undefined }[] = [];
    const proxy = createServer().on("connect", (request, near: Socket) => {
      seen.push({ target: request.url!, login: request.headers["proxy-authorization"] });
      near.write("HTTP/1.1 200 OK\r\n\r\n");
      relay(near, registry.nodes[0]!.port);
    });
    const url = await listen(proxy);
    const httpProxy = url.replace("//", "//user:p%40ss@");
    const gateway = useUpstreams([registry.upstream({ httpProxy, tls: { caFile: `${TLS}ca.pem` } })]);
    const outcomes = await Promise.all([0, 1, 2].map(() => gateway.call("transfer_factory")));
    expect(outcomes.map(({ text }) => text)).toEqual(["200", "200", "200"]);
    const login = `Basic ${Buffer.from("user:p@ss").toString("base64")}`;
    expect(seen.every((each) => each.target === `127.0.0.1:${registry.nodes[0]!.port}` && each.login === login)).toBe(
      true,
    );
    expect(registry.last.headers["proxy-authorization"]).toBeUndefined();
    expect(registry.count("info")).toBe(seen.length);
  });

  test.each(["refuses", "is away"])("that %s is 502, and says so", async (kind) => {
    const registry = await startRegistry("amulet", { tls: { cert: pem("server"), key: pem("server-key") } });
    const proxy = createServer().on("connect", (_request, near: Socket) => near.end("HTTP/1.1 403 Forbidden\r\n\r\n"));
    const httpProxy = await listen(proxy);
    if (kind === "is away") await new Promise((resolve) => proxy.close(resolve));
    const gateway = useUpstreams([registry.upstream({ httpProxy })]);
    const { text, error } = await gateway.call("transfer_factory");
    expect(text).toBe("502 upstream_unreachable");
    expect(error?.message).toMatch(/cannot be reached through the configured HTTP proxy/);
  });
});

test("idle connections are used again, and forgotten when the registry closes them", async () => {
  const registry = await startRegistry();
  const gateway = useUpstreams([registry]);
  for (let i = 0; i < 5; i += 1) await gateway.call("transfer_factory");
  expect(registry.nodes[0]!.accepted).toBe(1);
  await Promise.all(Array.from({ length: 5 }, () => gateway.call("transfer_factory")));
  expect(registry.nodes[0]!.accepted).toBeLessThanOrEqual(5);
  await registry.close();
  await registry.restart();
  await until(async () => (await gateway.call("transfer_factory")).text === "200");
});

async function listen(server: ReturnType<typeof createServer>): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The handle below a socket. */
interface TcpHandle {
  connect: (this: TcpHandle, request: object, address: string, ...others: unknown[]) => number;
}

/** Has handshakes with a port take so long, by address, while the test runs: as over a long way, or for ever. */
function stretchHandshakes(port: number, delays: Readonly<Record<string, number>>): void {
  const socket = connect(1, "127.0.0.1").on("error", () => undefined);
  const { _handle: handle } = socket as unknown as { _handle: TcpHandle };
  const prototype = Object.getPrototypeOf(handle) as TcpHandle;
  socket.destroy();
  const { connect: connectNow } = prototype;
  prototype.connect = function (this: TcpHandle, request, address, ...others) {
    const delay = others[0] === port ? (delays[address] ?? 0) : 0;
    if (delay === 0) return connectNow.call(this, request, address, ...others);
    if (delay < Infinity) setTimeout(() => connectNow.call(this, request, address, ...others), delay);
    return 0;
  };
  atEnd(() => (prototype.connect = connectNow));
}

function relay(near: Socket, port: number): void {
  const far = connect(port, "127.0.0.1");
  near.on("error", () => far.destroy()).on("close", () => far.destroy());
  far.on("error", () => near.destroy()).on("close", () => near.destroy());
  near.pipe(far).pipe(near);
}
