import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll } from "vitest";
import { clock, startReplica } from "../support/redis-replicas.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";
import { describeCoordinator } from "../support/coordinator-suite.ts";

let redis: RedisServer;
let setUps = 0;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

describeCoordinator("Redis coordinator", async () => {
  setUps += 1;
  const { coordinator, close } = await startReplica({ url: redis.url, keyPrefix: `test-${setUps}:` });
  return { coordinator, now: () => clock.now(), pass: sleep, close, settle: () => sleep(1_700) };
});

describeCoordinator("Redis coordinator without Redis", async () => {
  const { coordinator, close } = await startReplica({ url: "redis://127.0.0.1:1" }, { isReady: false });
  return { coordinator, now: () => clock.now(), pass: sleep, close, settle: () => sleep(400), share: 1 / 4 };
});
