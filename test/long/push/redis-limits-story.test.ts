import { setTimeout as sleep } from "node:timers/promises";
import { array, assert, asyncProperty, boolean, constantFrom, infiniteStream, integer, record } from "fast-check";
import { afterEach, expect, test } from "vitest";
import { clock, type Post, type Replica } from "../../support/redis-replicas.ts";
import { closeAll, isAcquainted, redisServer, replicaOn } from "../../support/redis-scene.ts";
import { type RedisServer } from "../../support/redis.ts";
import { until } from "../../support/until.ts";

afterEach(closeAll);

const windows = [
  { name: "calls", requests: 20, per: 600 },
  { name: "burst", requests: 10, per: 150 },
];
const claim = { kind: "upstream", id: "amulet", windows } as const;

/** A call was granted between these instants. */
interface Granted {
  readonly by: Replica;
  readonly from: number;
  readonly to: number;
}

type Trouble = (server: RedisServer, lasts: number) => Promise<unknown>;

/** Through these limits are exact. */
const EXACT: Readonly<Record<string, Trouble>> = {
  "Redis dies": async (server, lasts) => {
    await server.kill();
    await sleep(lasts);
    await server.start();
  },
  "connections are lost": ({ client }) => client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
  "subscriptions are lost": ({ client }) => client.call("CLIENT", "KILL", "TYPE", "pubsub"),
};

/** Here each replica may have the whole limit for a moment, and no more. */
const FORGETTING: Readonly<Record<string, Trouble>> = {
  ...EXACT,
  "Redis is emptied": ({ client }) => client.flushall(),
  "Redis is frozen": async (server, lasts) => {
    server.pause();
    await sleep(lasts);
    server.resume();
  },
};

/** Takes calls until all troubles are over, and long enough to fill the windows several times. */
async function takeFor(replicas: readonly Replica[], isOver: () => boolean): Promise<Granted[]> {
  const granted: Granted[] = [];
  const end = clock.now() + 2_000;
  await Promise.all(
    replicas.map(async (by) => {
      while (clock.now() < end || !isOver()) {
        const from = clock.now();
        const answer = await by.coordinator.limits.take(claim);
        if (answer.granted) granted.push({ by, from, to: clock.now() });
        else await sleep(Math.min(...answer.retryIn.filter((each) => each > 0), 20));
      }
    }),
  );
  return granted.toSorted((a, b) => a.from - b.from);
}

/** No window of either length has more calls than `times` the limit. */
function expectWithin(granted: readonly Granted[], times = 1): void {
  for (const { requests, per } of windows) {
    const most = requests * times;
    for (let i = most; i < granted.length; i += 1) {
      expect(granted[i]!.to - granted[i - most]!.from).toBeGreaterThanOrEqual(per - 1);
    }
  }
}

function troublesOf(kinds: Readonly<Record<string, Trouble>>) {
  const trouble = record({
    what: constantFrom(...Object.keys(kinds)),
    after: integer({ min: 50, max: 700 }),
    lasts: integer({ min: 50, max: 900 }),
  });
  return array(trouble, { minLength: 2, maxLength: 4 });
}

test.each([
  ["exactly, whenever Redis dies and connections are lost", EXACT, false],
  ["for each replica alone, whatever Redis forgets and messages are lost", FORGETTING, true],
] as const)("three replicas keep to a limit %s", async (_how, kinds, isLossy) => {
  await assert(
    asyncProperty(troublesOf(kinds), infiniteStream(boolean()), async (troubles, losses) => {
      const server = await redisServer();
      const post: Post = (_message, deliver) => {
        if (!isLossy || losses.next().value === true) deliver();
      };
      const replicas = await Promise.all([0, 1, 2].map(() => replicaOn({ url: server.url }, { post })));
      await until(() => replicas.every((replica) => isAcquainted(replica, 3)));
      let isOver = false;
      const taking = takeFor(replicas, () => isOver);
      for (const { what, after, lasts } of troubles) {
        await sleep(after);
        await kinds[what]!(server, lasts);
      }
      isOver = true;
      const granted = await taking;
      if (!isLossy) expectWithin(granted);
      expectWithin(granted, replicas.length);
      for (const replica of replicas) expectWithin(granted.filter(({ by }) => by === replica));
      expect(granted.length).toBeGreaterThan(10);
      await closeAll();
    }),
    { numRuns: 2, endOnFailure: true, interruptAfterTimeLimit: 30_000 },
  );
});
