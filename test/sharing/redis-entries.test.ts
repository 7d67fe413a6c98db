import { join } from "node:path";
import { afterAll, describe } from "vitest";
import type { RedisConfig } from "../../src/config/schema.ts";
import { MemoryStore } from "../../src/cache/stores/memory-store.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { startCluster } from "../support/redis-cluster.ts";
import { clock, startReplica } from "../support/redis-replicas.ts";
import { startSentinel } from "../support/redis-sentinel.ts";
import { startRedis, tlsFolder } from "../support/redis.ts";
import { useSealKeys } from "../support/seal-keys.ts";
import { describeStore } from "../support/store-suite.ts";

const closing: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closing.toReversed()) await close();
});

/** A Redis that is started when its first test asks for it; every test has its own keys there. */
function on(start: () => Promise<Partial<RedisConfig>>) {
  let redis: Promise<Partial<RedisConfig>> | undefined;
  let tests = 0;
  return async () => {
    redis ??= start();
    tests += 1;
    const replica = await startReplica({ ...(await redis), keyPrefix: `rg${tests}:` });
    return {
      store: replica.store,
      coordinator: replica.coordinator,
      now: () => clock.now(),
      close: () => replica.close(),
    };
  };
}

describeStore("memory", () => ({
  store: new MemoryStore({ maxBytes: 10_000_000, maxObject: 1_000_000 }),
  coordinator: localCoordinator(clock),
  now: () => clock.now(),
  close: () => Promise.resolve(),
}));

describe("one server", () => {
  describeStore(
    "Redis",
    on(async () => {
      const server = await startRedis();
      closing.push(() => server.stop());
      return { url: server.url };
    }),
  );
});

const sealKeys = useSealKeys();

describe("one server and a seal key", () => {
  describeStore(
    "Redis",
    on(async () => {
      const server = await startRedis();
      closing.push(() => server.stop());
      return { url: server.url, sealKeyFile: sealKeys("key", "one") };
    }),
  );
});

describe("TLS", () => {
  describeStore(
    "Redis",
    on(async () => {
      const server = await startRedis({ tls: true });
      closing.push(() => server.stop());
      return { url: server.url, tls: { caFile: join(tlsFolder, "ca.pem") } };
    }),
  );
});

describe("cluster", () => {
  describeStore(
    "Redis",
    on(async () => {
      const cluster = await startCluster();
      closing.push(() => cluster.stop());
      return { cluster: { nodes: cluster.urls } };
    }),
  );
});

describe("sentinel", () => {
  describeStore(
    "Redis",
    on(async () => {
      const sentinel = await startSentinel();
      closing.push(() => sentinel.stop());
      return { sentinel: { name: sentinel.name, nodes: sentinel.nodes } };
    }),
  );
});
