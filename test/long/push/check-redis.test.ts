import { readFileSync } from "node:fs";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { checkRedis } from "../../../src/commands/check-live.ts";
import type { RedisConfig } from "../../../src/config/schema.ts";
import { startCluster } from "../../support/redis-cluster.ts";
import { startSentinel } from "../../support/redis-sentinel.ts";
import { startRedis, tlsFolder } from "../../support/redis.ts";

const ending: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0)) await end();
});

function ends<T extends { stop(): Promise<void> }>(server: T): T {
  ending.push(() => server.stop());
  return server;
}

const ask = (keys: Omit<RedisConfig, "keyPrefix">) => checkRedis({ keyPrefix: "rg:", ...keys }, systemClock());

const GOOD = { isWell: true, line: expect.stringMatching(/^redis: answers, \d+ ms/) };
const bad = (why: RegExp) => ({ isWell: false, line: expect.stringMatching(why) });

describe("check --live logs in to Redis:", () => {
  test("a single server", async () => {
    const server = ends(await startRedis({ password: "right" }));
    expect(await ask({ url: server.url, password: "right" })).toMatchObject(GOOD);
    expect(await ask({ url: server.url, password: "wrong" })).toMatchObject(bad(/refuses the login/));
    expect(await ask({ url: server.url })).toMatchObject(bad(/wants a login and none is configured/));
    await server.client.call("ACL", "SETUSER", "gateway", "on", ">its-own", "~*", "+@read", "+info");
    const login = { username: "gateway", password: "its-own" };
    expect(await ask({ url: server.url, ...login })).toMatchObject(bad(/NOPERM/));
    await server.client.call("ACL", "SETUSER", "gateway", "+@all");
    expect(await ask({ url: server.url, ...login })).toMatchObject(GOOD);
    await server.kill();
    expect(await ask({ url: server.url, ...login })).toMatchObject(bad(/refuses the connection/));
  });

  test("a server with TLS", async () => {
    const server = ends(await startRedis({ tls: true }));
    expect(await ask({ url: server.url, tls: { caFile: join(tlsFolder, "ca.pem") } })).toMatchObject(GOOD);
    expect(await ask({ url: server.url })).toMatchObject(bad(/certificate that is not trusted/));
  });

  test("a cluster", async () => {
    const cluster = ends(await startCluster());
    expect(await ask({ cluster: { nodes: cluster.urls } })).toMatchObject(GOOD);
    await Promise.all(cluster.masters.map(({ client }) => client.config("SET", "requirepass", "right")));
    expect(await ask({ cluster: { nodes: cluster.urls }, password: "right" })).toMatchObject(GOOD);
    expect(await ask({ cluster: { nodes: cluster.urls }, password: "wrong" })).toMatchObject(bad(/refuses the login/));
  });

  test("a master behind sentinels", async () => {
    const { name, nodes } = ends(await startSentinel({ server: "right", sentinel: "right-too" }));
    const password = "right";
    const wrong = { password: "wrong" };
    const sentinel = { name, nodes, sentinelAuth: { password: "right-too" } };
    expect(await ask({ sentinel, password })).toMatchObject(GOOD);
    expect(await ask({ sentinel, ...wrong })).toMatchObject(bad(/refuses the login/));
    expect(await ask({ sentinel: { ...sentinel, sentinelAuth: wrong }, password })).toMatchObject(
      bad(/refuses the login/),
    );
    expect(await ask({ sentinel: { ...sentinel, name: "other" }, password })).toMatchObject(
      bad(/know no master of this name/),
    );
  });
});

/** The only node of a cluster with TLS: it announces, or sends on to, another one. */
async function startNode(reply: (command: string) => string) {
  const pem = (file: string) => readFileSync(join(tlsFolder, `${file}.pem`));
  const server = createTlsServer({ cert: pem("server"), key: pem("server-key") }, (socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (chunk: Buffer) => {
      for (const command of commandsIn(chunk.toString())) socket.write(reply(command));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ending.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** The commands of a request in Redis's protocol, their words joined. */
function commandsIn(text: string): string[] {
  return text
    .split(/(?=\*\d+\r\n)/)
    .map((each) => each.split("\r\n").filter((_line, i) => i > 0 && i % 2 === 0))
    .map((words) => words.join(" ").toLowerCase());
}

const slots = (port: number) => `*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:${port}\r\n`;
const info = "# Server\r\nredis_version:7.2.0\r\n# Persistence\r\nloading:0\r\n";

function answer(command: string, onSlots: string, onOther = "+OK\r\n"): string {
  if (command.startsWith("cluster slots")) return onSlots;
  if (command.startsWith("info")) return `$${info.length}\r\n${info}\r\n`;
  if (command.startsWith("cluster info")) return "$16\r\ncluster_state:ok\r\n";
  if (command.startsWith("eval")) return onOther;
  return command.startsWith("hello") ? "%1\r\n$5\r\nproto\r\n:3\r\n" : "+OK\r\n";
}

const tls = { caFile: join(tlsFolder, "ca.pem") };

describe("no login leaves without the TLS that was configured:", () => {
  /** Somebody who listens in the clear, and what it heard. */
  async function startListener() {
    const heard: Buffer[] = [];
    const server = createTcpServer((socket) => {
      socket.on("data", (chunk: Buffer) => heard.push(chunk)).on("error", () => undefined);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    ending.push(() => server.close());
    return { port: (server.address() as AddressInfo).port, heard: () => Buffer.concat(heard) };
  }

  test("a node that a cluster announces", async () => {
    const listener = await startListener();
    const port = await startNode((command) => answer(command, slots(listener.port)));
    const report = await ask({ cluster: { nodes: [`rediss://127.0.0.1:${port}`] }, password: "s3cret", tls });
    expect(report.isWell).toBe(false);
    // A ClientHello, and nothing else.
    expect(listener.heard()[0]).toBe(0x16);
    expect(listener.heard().toString("latin1")).not.toContain("s3cret");
  });

  test.each(["MOVED", "ASK"])("a node that %s leads to", async (redirect) => {
    const heard: string[] = [];
    // It has TLS alone: what it hears came through that.
    const other: number = await startNode((command) => {
      heard.push(command);
      return answer(command, slots(other));
    });
    const onOther = `-${redirect} 1 127.0.0.1:${other}\r\n`;
    const port: number = await startNode((command) => answer(command, slots(port), onOther));
    const nodes = [`rediss://127.0.0.1:${port}`];
    expect(await ask({ cluster: { nodes }, password: "s3cret", tls })).toMatchObject(GOOD);
    expect(heard).toContainEqual(expect.stringContaining("s3cret"));
  });

  test("a node whose URL says redis://, where redis.tls is configured or another URL says rediss://", async () => {
    const listener = await startListener();
    const plain = `redis://127.0.0.1:${listener.port}`;
    await Promise.all([
      ask({ url: plain, password: "s3cret", tls }),
      ask({ cluster: { nodes: [plain] }, password: "s3cret", tls }),
      ask({ cluster: { nodes: [plain, "rediss://127.0.0.1:1"] }, password: "s3cret" }),
    ]);
    expect(listener.heard()[0]).toBe(0x16);
    expect(listener.heard().toString("latin1")).not.toContain("s3cret");
  });
});

// The client sends ASKING by itself and does not look at what becomes of it.
test("a node that an ASK leads to and that does not answer is bad news, not the end of the process", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  ending.push(() => process.off("unhandledRejection", note));
  const heard: string[] = [];
  const silent: number = await startNode((command) => {
    heard.push(command);
    return command === "asking" || command.startsWith("eval") ? "" : answer(command, slots(silent));
  });
  const port: number = await startNode((command) => answer(command, slots(port), `-ASK 1 127.0.0.1:${silent}\r\n`));
  const report = await ask({ cluster: { nodes: [`rediss://127.0.0.1:${port}`] }, tls });
  expect(report).toMatchObject(bad(/does not answer in time/));
  expect(heard).toContain("asking");
  // Rejections are told behind the promises of the same turn.
  await new Promise(setImmediate);
  expect(unhandled).toEqual([]);
});
