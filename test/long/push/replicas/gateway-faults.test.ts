import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { CANCEL, DRAFT, INFO, LIST } from "../../../support/endpoints.ts";
import { startGateway, type TestGateway, type Values } from "../../../support/gateway.ts";
import { type RedisServer, startRedis } from "../../../support/redis.ts";
import { type Registry, startRegistry } from "../../../support/registry.ts";
import { until } from "../../../support/until.ts";

async function start(count: number, values: Omit<Values, "upstreams"> = {}, upstream: object = {}) {
  const amulet = await startRegistry("amulet", { nodes: 2 });
  const redis = await startRedis();
  const gateways: TestGateway[] = [];
  for (let at = 0; at < count; at += 1) {
    gateways.push(await startGateway({ redis: { url: redis.url }, ...values, upstreams: [amulet.upstream(upstream)] }));
  }
  for (const gateway of gateways) await until(async () => (await redisOf(gateway)) === "up");
  return { amulet, redis, gateways };
}

const redisOf = async (gateway: TestGateway): Promise<string> =>
  (await gateway.operations.status()).redis.redis as string;

/** Commands that Redis did not answer in time. */
async function troubleOf({ operations }: TestGateway): Promise<number> {
  const count = (outcome: string) => operations.metric("registry_gateway_redis_commands_total", `outcome="${outcome}"`);
  return (await count("error")) + (await count("skipped"));
}

/** Asks for all kinds of things until the returned function is called, which gives what came back, and how long the longest took. */
function load(
  gateways: readonly TestGateway[],
): () => Promise<{ outcomes: Set<string>; longest: number; count: number }> {
  const over = new AbortController();
  let longest = 0;
  let count = 0;
  const outcomes = new Set<string>();
  const workers = gateways.flatMap((gateway, at) =>
    [0, 1].map(async (worker) => {
      for (let round = 0; !over.signal.aborted; round += 1) {
        const requests = [
          { path: INFO },
          { path: `${LIST}?pageSize=${(round % 20) + 1}` },
          { path: CANCEL, body: "{}" },
          { path: DRAFT },
          { path: `${LIST}/x-${at}-${worker}-${round}` },
        ];
        const startedAt = performance.now();
        const answer = await gateway.send(requests[round % requests.length]!);
        longest = Math.max(longest, performance.now() - startedAt);
        count += 1;
        outcomes.add(answer.outcome);
        await setTimeout(5);
      }
    }),
  );
  return async () => {
    over.abort();
    await Promise.all(workers);
    return { outcomes, longest, count };
  };
}

/** Waits until so many requests more have reached the registry. */
async function more(amulet: Registry, count: number): Promise<void> {
  const before = amulet.calls.length;
  await until(() => amulet.calls.length >= before + count);
}

const FAULTS: readonly [string, (redis: RedisServer) => unknown, (redis: RedisServer) => unknown][] = [
  ["is killed and started again, empty", (redis) => redis.kill(), (redis) => redis.start()],
  ["is frozen", (redis) => redis.pause(), (redis) => redis.resume()],
  [
    "is full",
    (redis) => redis.client.config("SET", "maxmemory", "1"),
    (redis) => redis.client.config("SET", "maxmemory", "0"),
  ],
];

describe("two replicas", () => {
  const areUp = async (gateways: readonly TestGateway[]): Promise<boolean> =>
    (await Promise.all(gateways.map(redisOf))).every((state) => state === "up");

  test.each(FAULTS)("fail no request when Redis %s", async (_what, breakIt, mendIt) => {
    const { amulet, redis, gateways } = await start(2);
    const finish = load(gateways);
    await more(amulet, 10);
    await breakIt(redis);
    await more(amulet, 80);
    await mendIt(redis);
    await until(() => areUp(gateways));
    await more(amulet, 10);
    const { outcomes, longest } = await finish();
    expect(outcomes).toEqual(new Set(["200", "404"]));
    expect(longest).toBeLessThan(3_000);
  });

  test("ask for no more infos than proofEvery says when Redis restarts four times", async () => {
    const { amulet, redis, gateways } = await start(2);
    for (const gateway of gateways) for (let round = 0; round < 10; round += 1) await gateway.post(CANCEL);
    const infos = amulet.count("info");
    for (let round = 0; round < 4; round += 1) {
      await redis.kill();
      await redis.start();
      await until(() => areUp(gateways));
      for (const gateway of gateways) expect((await gateway.post(CANCEL)).status).toBe(200);
    }
    expect(amulet.count("info")).toBe(infos);
  });
});

test("no request fails where Redis was never there", async () => {
  const amulet = await startRegistry("amulet");
  const gateway = await startGateway({ redis: { url: "redis://127.0.0.1:1" }, upstreams: [amulet] });
  const finish = load([gateway]);
  await more(amulet, 40);
  expect((await finish()).outcomes).toEqual(new Set(["200", "404"]));
  expect(await redisOf(gateway)).not.toBe("up");
  expect((await gateway.operations.get("/readyz")).status).toBe(200);
});

describe("the limit of an upstream", () => {
  const RATE = { rateLimit: { requests: "20/1h" } };
  const keys = { cache: { ttl: { instruments: "0s", info: "0s", instrument: "0s", notFound: "0s" } } };
  const ask = (gateway: TestGateway) => gateway.post(CANCEL, "{}", { "request-timeout": "0.5" });

  test("is never exceeded by all replicas together, and used up by whoever asks", async () => {
    const { amulet, gateways } = await start(3, keys, RATE);
    const answers = await Promise.all(Array.from({ length: 60 }, (_none, at) => ask(gateways[at % 3]!)));
    const trouble = await Promise.all(gateways.map(troubleOf));
    // On a machine that is so busy that Redis is late, the contract lets it be twice as many.
    expect(amulet.calls.length).toBeLessThanOrEqual(Math.max(...trouble) > 0 ? 40 : 20);
    expect(amulet.calls.length).toBeGreaterThanOrEqual(20);
    expect(new Set(answers.map(({ outcome }) => outcome))).toEqual(new Set(["200", "429 rate_limited"]));
    expect(answers.filter(({ status }) => status === 200).length).toBe(amulet.count("allocation_cancel"));
  });

  test("is shared out by the replicas last seen while Redis is away", async () => {
    const { amulet, redis, gateways } = await start(2, keys, RATE);
    await until(async () => (await gateways[0]!.operations.status()).redis.replicas === 2);
    await until(async () => (await gateways[1]!.operations.status()).redis.replicas === 2);
    redis.pause();
    await until(async () => {
      await ask(gateways[0]!);
      return (await redisOf(gateways[0]!)) !== "up";
    });
    await Promise.all(Array.from({ length: 60 }, (_none, at) => ask(gateways[at % 2]!)));
    // In a window in which Redis went it may be twice as many.
    expect(amulet.calls.length).toBeLessThanOrEqual(40);
    redis.resume();
  });

  test("is whole for a lone replica that starts without Redis", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await startGateway({
      ...keys,
      redis: { url: "redis://127.0.0.1:1" },
      upstreams: [amulet.upstream(RATE)],
    });
    await Promise.all(Array.from({ length: 30 }, () => ask(gateway)));
    expect(amulet.calls.length).toBe(20);
  });
});
