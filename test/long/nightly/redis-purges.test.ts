import { expect, test } from "vitest";
import { tellPurgeStory } from "../../support/redis-purges.ts";

test.for([1, 2])(
  "no answer asked for before a purge is served after its bound, though Redis dies, too (seed %i)",
  async (seed) => {
    const story = await tellPurgeStory({ seed, replicas: 4, duration: 20_000, redisDies: true });
    console.log(JSON.stringify({ ...story, violations: story.violations.length }));
    expect(story.violations).toEqual([]);
    expect(story.served).toBeGreaterThan(1_000);
  },
);
