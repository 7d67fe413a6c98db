import { expect, test } from "vitest";
import { tellPurgeStory } from "../support/redis-purges.ts";

test("no answer asked for before a purge is served after its bound, whatever replicas, messages and Redis go through", async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const story = await tellPurgeStory({ seed, replicas: 3, duration: 7_000 });
  expect(story.violations, `seed ${seed}`).toEqual([]);
  expect(story.served).toBeGreaterThan(50);
  expect(story.fromRedis).toBeGreaterThan(0);
  expect(story.purges.fleet).toBeGreaterThan(5);
});
