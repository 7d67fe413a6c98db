import { test } from "vitest";
import { startRedis } from "../support/redis.ts";
import { expectModel } from "./property.ts";

// Its clock is Redis's: most of the time is waiting.
test("whatever happens to replicas and their Redis, the contract holds", async () => {
  await expectModel({ steps: 150, redis: await startRedis() });
});
