import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { FileWatcher } from "../../../src/config/watched-files.ts";
import { systemClock } from "../../../src/clock.ts";
import { parseConfig } from "../../../src/config/parse.ts";
import type { RedisConfig } from "../../../src/config/schema.ts";
import { RedisConnection } from "../../../src/sharing/redis/connection.ts";
import { createLogger } from "../../../src/observe/log.ts";
import { createMetrics } from "../../../src/observe/metrics.ts";
import { createRedisObserver } from "../../../src/observe/redis-observer.ts";
import { startCluster } from "../../support/redis-cluster.ts";
import { startSentinel } from "../../support/redis-sentinel.ts";
import { startRedis, tlsFolder } from "../../support/redis.ts";
import { until } from "../../support/until.ts";

const ending: (() => unknown)[] = [];
// All at once: each waits most of its time, on a server of its own.
afterAll(async () => {
  for (const end of ending.splice(0)) await end();
});

function ends<T extends { stop(): Promise<void> }>(server: T): T {
  ending.push(() => server.stop());
  return server;
}

function redisConfig(keys: object): RedisConfig {
  const text = JSON.stringify({ redis: keys, upstreams: [{ name: "a", urls: ["http://127.0.0.1:1"] }] });
  const { config, problems } = parseConfig({ text, file: "test.yaml", env: {} });
  if (config?.redis === undefined) throw new Error(JSON.stringify(problems));
  return config.redis;
}

/** Connects, and collects what is logged. */
function connect(keys: object) {
  const lines: Record<string, unknown>[] = [];
  const log = createLogger("info", { destination: { write: (line: string) => void lines.push(JSON.parse(line)) } });
  const observer = createRedisObserver(createMetrics().metrics, log);
  const clock = systemClock();
  const connection = new RedisConnection({ config: redisConfig(keys), clock, files: new FileWatcher(clock), observer });
  connection.start({ connected: () => {}, disconnected: () => {}, missed: () => undefined, received: () => {} });
  ending.push(() => connection.close(0));
  return lines;
}

describe.concurrent("a Redis that cannot be connected to is one log line, though it is tried again and again:", () => {
  async function expectOneLine(keys: object, reason: RegExp): Promise<void> {
    const lines = connect(keys);
    await until(() => lines.length > 0);
    // It is tried again at least every 500 ms.
    await pause(2_000);
    expect(lines).toMatchObject([
      { level: "error", msg: "Redis cannot be connected to", reason: expect.stringMatching(reason) },
    ]);
    expect(JSON.stringify(lines)).not.toMatch(/wrong-one|127\.0\.0\.1/);
  }

  test("a wrong password", async () => {
    const server = ends(await startRedis({ password: "right" }));
    await expectOneLine({ url: server.url, password: "wrong-one" }, /refuses the login/);
  });

  test("no password where one is wanted", async () => {
    const server = ends(await startRedis({ password: "right" }));
    await expectOneLine({ url: server.url }, /wants a login/);
  });

  test("a certificate of another authority", async () => {
    const server = ends(await startRedis({ tls: true }));
    await expectOneLine({ url: server.url, tls: { caFile: join(tlsFolder, "other-ca.pem") } }, /not trusted/);
  });

  test("a certificate of another name", async () => {
    const server = ends(await startRedis({ tls: true }));
    const tls = { caFile: join(tlsFolder, "ca.pem"), servername: "redis.example" };
    await expectOneLine({ url: server.url, tls }, /certificate of another name/);
  });

  test("a name that does not resolve", async () => {
    await expectOneLine({ url: "redis://nowhere.invalid" }, /does not resolve/);
  });

  test("a wrong password for the master behind a sentinel, and for the sentinel", async () => {
    const { name, nodes } = ends(await startSentinel({ server: "right", sentinel: "right-too" }));
    const sentinelAuth = { password: "right-too" };
    await expectOneLine({ sentinel: { name, nodes, sentinelAuth }, password: "wrong-one" }, /refuses the login/);
    await expectOneLine(
      { sentinel: { name: "other", nodes, sentinelAuth }, password: "right" },
      /know no master of this name/,
    );
  });

  test("a wrong password for the nodes of a cluster", async () => {
    const cluster = ends(await startCluster());
    await Promise.all(cluster.masters.map(({ client }) => client.config("SET", "requirepass", "right")));
    await expectOneLine({ cluster: { nodes: cluster.urls }, password: "wrong-one" }, /refuses the login/);
  });
});
