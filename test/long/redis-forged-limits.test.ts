import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { Keys } from "../../src/coordination/redis/protocol.ts";
import { clock } from "../support/redis-replicas.ts";
import { acquaintedReplicas, closeAll } from "../support/redis-scene.ts";
import type { RedisServer } from "../support/redis.ts";
import { shareOf } from "../support/thorough.ts";

// All at once: each waits most of its time, on a Redis of its own.
afterAll(closeAll);

const REPLICAS = 2;
const LIMIT = { requests: 5, per: 1_500 };
const KEY = new Keys("rg:").rateLimit("limit");
const COUNTS = `${KEY}:m`;

/** What a party that writes to Redis may put there; `now` is its clock (ms). */
type Forgery = (client: RedisServer["client"], now: number) => Promise<unknown>;

function calls(client: RedisServer["client"], score: number | string, count: number, name = "x"): Promise<unknown> {
  const members = Array.from({ length: count }, (_, i) => [score, `${name}|forged:${i}`]).flat();
  return client.zadd(KEY, ...members);
}

const counts =
  (value: string | number): Forgery =>
  (client) =>
    client.hset(COUNTS, { a: value, b: value, "": value });

const FORGERIES: [string, Forgery][] = [
  ["nothing any more", (client) => client.del(KEY, COUNTS)],
  ["more calls than the limit, of now", (client, now) => calls(client, now, 50)],
  ["calls that are still to come", (client, now) => calls(client, now + LIMIT.per - 5, 50)],
  ["calls of a far future", (client, now) => calls(client, now + 1e9, 50)],
  ["calls of the end of all time", (client) => calls(client, "+inf", 50)],
  ["calls from before all time", (client) => calls(client, "-inf", 50)],
  ["calls at an instant beyond counting", (client) => calls(client, 1e308, 50)],
  ["ten thousand calls", (client, now) => calls(client, now, 10_000)],
  ["calls without a name", (client, now) => client.zadd(KEY, now, "", now, "|", now, "?a|", now, "\u0000")],
  ["calls in a text", (client) => client.set(KEY, "junk")],
  ["calls in a list", (client) => client.del(KEY).then(() => client.rpush(KEY, "junk"))],
  ["counts of no number", counts("junk")],
  ["counts of NaN", counts("nan")],
  ["counts of infinity", counts("-inf")],
  ["counts of halves", counts("0.5")],
  ["counts with a point", counts("1.0")],
  ["the largest counts", counts("9223372036854775807")],
  ["the least counts", counts("-9223372036854775808")],
  ["counts beyond counting", counts("1e308")],
  ["counts below nothing", counts(-7)],
  ["counts that add up, to nothing", (client) => client.hset(COUNTS, { a: -3, b: 3 })],
  ["counts in a text", (client) => client.set(COUNTS, "junk")],
  [
    "a thousand others that were refused",
    (client, now) =>
      client.hset(COUNTS, Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`?m${i}`, Math.floor(now)]))),
  ],
  ["one that was refused for ever", (client) => client.hset(COUNTS, { "?b": "9e18", "?c": "inf", "?d": "nan" })],
];

/** Redis's clock (ms). */
async function redisTime(client: RedisServer["client"]): Promise<number> {
  const [seconds, microseconds] = await client.time();
  return Number(seconds) * 1_000 + Number(microseconds) / 1_000;
}

describe.concurrent.each([
  ["of one upstream", [undefined], 0],
  ["of a group", ["a", "b"], 1],
] as const)("a count of calls %s that another party forged", (_whose, members, place) => {
  test.each(shareOf(FORGERIES, place, 2))(
    "as %s is no error, blocks for no longer than a window, and gives no more than each replica has",
    async (_what, forge) => {
      const { server, replicas } = await acquaintedReplicas(REPLICAS);
      const granted: number[] = [];
      const take = async (): Promise<boolean> => {
        const grants = await Promise.all(
          replicas.flatMap(({ coordinator }) =>
            members.map(async (member) => coordinator.takeCall("limit", { ...LIMIT, member })),
          ),
        );
        const count = grants.filter((grant) => grant.granted).length;
        for (let i = 0; i < count; i += 1) granted.push(clock.now());
        for (const grant of grants) if (!grant.granted) expect(grant.retryIn).toBeLessThanOrEqual(LIMIT.per + 1);
        return count > 0;
      };
      // Once while nothing is counted yet, and once beside what is.
      for (const isUsed of [false, true]) {
        if (isUsed) await take();
        await forge(server.client, await redisTime(server.client));
        const begin = clock.now();
        while (!(await take())) {
          expect(clock.now() - begin).toBeLessThan(LIMIT.per + 700);
          await sleep(20);
        }
        await forge(server.client, await redisTime(server.client));
        for (let i = 0; i < 10; i += 1) await take();
      }
      for (const [index, at] of granted.entries()) {
        const inWindow = granted.slice(index).filter((each) => each < at + LIMIT.per - 100).length;
        expect(inWindow).toBeLessThanOrEqual(LIMIT.requests * REPLICAS);
      }
      for (const { events, coordinator } of replicas) {
        expect(events.commands.filter(({ name, outcome }) => name === "call_take" && outcome === "error")).toEqual([]);
        expect(coordinator.status().state).toBe("up");
      }
    },
  );
});
describe.concurrent("what a client's limit has in Redis that another party forged", () => {
  const BUCKET = { burst: 3, interval: 100, spent: 0, missing: 0 };
  const TOKENS = new Keys("rg:").tokens("client");
  const SLOTS = new Keys("rg:").slots("client");

  test.each<[string, (now: number) => string]>([
    ["more missing than was ever spent", (now) => `${now} 1e15`],
    ["less than nothing missing", (now) => `${now} -1e15`],
    ["no number missing", (now) => `${now} nan`],
    ["all missing for ever", (now) => `${now} inf`],
    ["all missing since a time to come", (now) => `${now + 1e12} 6`],
    ["all missing since before all time", () => "-inf 6"],
    ["all missing since no time", () => "nan 6"],
    ["a thousand buckets", (now) => `${now} ${"6 ".repeat(1_000)}`],
    ["nothing", () => ""],
  ])("as %s is no error, and over when the bucket is full again", async (_what, textAt) => {
    const { server, replicas } = await acquaintedReplicas(1);
    const { coordinator } = replicas[0]!;
    const take = () => coordinator.clientLimits.takeTokens("client", { buckets: [BUCKET], wanted: [10] });
    await server.client.set(TOKENS, textAt(await redisTime(server.client)));
    const begin = clock.now();
    for (;;) {
      const grant = await take();
      expect(grant?.granted[0]).toBeLessThanOrEqual(BUCKET.burst);
      expect(grant?.missing[0]).toBeLessThanOrEqual(2 * BUCKET.burst);
      if (grant!.granted[0]! > 0) break;
      expect(clock.now() - begin).toBeLessThan(2 * BUCKET.burst * BUCKET.interval + 700);
      await sleep(20);
    }
    expect(coordinator.status().state).toBe("up");
  });

  test.each<[string, (till: number) => string]>([
    ["more slots than there are", (till) => `other=${"9".repeat(400)}@${till}`],
    ["slots held for ever", () => "other=5@99999999999999999999"],
    ["slots held until no time", () => "other=5@nan,other=inf@1,=@"],
    ["many replicas", (till) => Array.from({ length: 3_000 }, (_, i) => `r${i}=1@${till}`).join(",")],
  ])("as %s is no error, and over in three seconds", async (_what, textTill) => {
    const { server, replicas } = await acquaintedReplicas(1);
    const { coordinator } = replicas[0]!;
    await server.client.set(SLOTS, textTill(Math.floor((await redisTime(server.client)) + 2_000)));
    const hold = () => coordinator.clientLimits.holdSlots("client", { running: 1, wanted: 3, max: 5 });
    const begin = clock.now();
    for (let held = await hold(); held !== 3; held = await hold()) {
      // What runs goes on, whatever is there.
      expect(held).toBe(1);
      expect(clock.now() - begin).toBeLessThan(3_700);
      await sleep(50);
    }
    expect(coordinator.status().state).toBe("up");
  });
});
