import { afterEach, expect, test } from "vitest";
import { MAX_WAIT } from "../../src/sharing/redis/partitions.ts";
import { closeAll, redisServer, replicaOn } from "../support/redis-scene.ts";

afterEach(closeAll);

// Ten at once at one replica were ten calls, and the share of another that had not noticed Redis yet came on top.
test("beside the count in Redis, calls that come at once are no more than a replica's share", async () => {
  const server = await redisServer();
  const { coordinator } = await replicaOn({ url: server.url });
  const claim = { kind: "upstream", id: "amulet", windows: [{ name: "calls", requests: 40, per: 60_000 }] } as const;
  const answers = await Promise.all(Array.from({ length: 20 }, async () => coordinator.limits.take(claim)));
  // A quarter, as long as it does not know the others.
  expect(answers.filter(({ granted }) => granted)).toHaveLength(10);
  // What was refused may ask again as soon as it is known how many were granted.
  expect(new Set(answers.flatMap(({ retryIn }) => retryIn))).toEqual(new Set([MAX_WAIT]));
});
