import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll } from "vitest";
import { clock, startReplica } from "../support/redis-replicas.ts";
import { isAcquainted } from "../support/redis-scene.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";
import { until } from "../support/until.ts";
import { useSealKeys } from "../support/seal-keys.ts";
import { describeCoordinator } from "../support/coordinator-suite.ts";

let redis: RedisServer;
let setUps = 0;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

describeCoordinator("Redis coordinator", async () => {
  setUps += 1;
  const replica = await startReplica({ url: redis.url, keyPrefix: `test-${setUps}:` });
  const settle = () => until(() => isAcquainted(replica, 1));
  return { coordinator: replica.coordinator, now: () => clock.now(), pass: sleep, close: replica.close, settle };
});

const sealKeys = useSealKeys();

describeCoordinator("Redis coordinator with a seal key", async () => {
  setUps += 1;
  const sealKeyFile = sealKeys("key", "one");
  const replica = await startReplica({ url: redis.url, keyPrefix: `test-${setUps}:`, sealKeyFile });
  const settle = () => until(() => isAcquainted(replica, 1));
  return { coordinator: replica.coordinator, now: () => clock.now(), pass: sleep, close: replica.close, settle };
});

describeCoordinator("Redis coordinator without Redis", async () => {
  const { coordinator, close } = await startReplica({ url: "redis://127.0.0.1:1" }, { isReady: false });
  return { coordinator, now: () => clock.now(), pass: sleep, close, settle: () => sleep(400), share: 1 / 4 };
});
