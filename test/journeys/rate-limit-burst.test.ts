import { afterEach, expect, test } from "vitest";
import { useGateways } from "../support/gateways.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { DSO } from "../support/sample.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { useSealKeys } from "../support/seal-keys.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();
const sealKeys = useSealKeys();

const running: RedisServer[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()));
});

const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

const BURST = 5;
const PER = 2_000;

/** Calls take their time from the gateway to the registry, and on a busy machine some a second more than others. */
const TRAVEL = 1_500;

test("two replicas together never send a registry more than its burst in any window, and make all calls in the end", async () => {
  const redis = await startRedis();
  running.push(redis);
  const registry = await startRegistry();
  const keys = {
    redis: { url: redis.url, sealKeyFile: sealKeys("key", "one") },
    upstreams: [
      {
        name: "amulet",
        admin: DSO,
        urls: [registry.url],
        rateLimit: { requests: 1_000, per: "1m", burst: { requests: BURST, per: "2s" }, maxWait: "20s" },
      },
    ],
  };
  const replicas = [await startGateway(keys), await startGateway(keys)];
  const headers = { "content-type": "application/json" };
  const posts = Array.from({ length: 16 }, async (_, i) => {
    const answer = await fetch(replicas[i % 2]!.registrar(DSO) + ACCEPT, { method: "POST", headers, body: "{}" });
    await answer.arrayBuffer();
    return answer.status;
  });
  expect(await Promise.all(posts)).toEqual(posts.map(() => 200));
  // Checks count as well.
  const times = registry.calls.recent.map(({ at }) => at);
  expect(times.length).toBeGreaterThan(posts.length);
  const fullest = Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + PER - TRAVEL).length));
  expect(fullest).toBeLessThanOrEqual(BURST);
});
