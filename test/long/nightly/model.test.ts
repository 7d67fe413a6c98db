import { test } from "vitest";
import { expectModel } from "../../model/property.ts";
import { startRedis } from "../../support/redis.ts";

/** `MODEL_STEPS` in all, of cases that nobody has seen; a tenth of them with Redis, whose clock cannot be moved. */
const STEPS = Number(process.env["MODEL_STEPS"] ?? 100_000);
const HOURS = 3_600_000;

test(
  "whatever happens to one gateway or several, the contract holds",
  () => expectModel({ steps: 0.9 * STEPS }),
  HOURS,
);

test(
  "whatever happens to replicas and their Redis, the contract holds",
  async () => expectModel({ steps: 0.1 * STEPS, redis: await startRedis() }),
  HOURS,
);
