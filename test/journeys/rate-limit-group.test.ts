import { afterEach, expect, test } from "vitest";
import { useGateways } from "../support/gateways.ts";
import { partyOf } from "../support/discovery.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { until } from "../support/until.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { useSealKeys } from "../support/seal-keys.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();
const sealKeys = useSealKeys();

const running: RedisServer[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()));
});

const ONE = partyOf("one");
const TWO = partyOf("two");

const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

test("a registry of a group that answers 429 has all of the group left alone for as long as it says, by all replicas", async () => {
  const redis = await startRedis();
  running.push(redis);
  const [one, two] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: TWO })]);
  const rateLimit = { requests: 1_000, per: "1m", group: "host" };
  const keys = {
    redis: { url: redis.url, sealKeyFile: sealKeys("key", "one") },
    upstreams: [
      { name: "one", admin: ONE, urls: [one.url], rateLimit },
      { name: "two", admin: TWO, urls: [two.url], rateLimit },
    ],
  };
  const [here, there] = [await startGateway(keys), await startGateway(keys)];
  const post = async (base: string) => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(base + ACCEPT, { method: "POST", headers, body: "{}" });
    const { error } = (await answer.json()) as { error?: string };
    return { status: answer.status, retryAfter: Number(answer.headers.get("retry-after")), error };
  };
  for (const gateway of [here, there]) {
    for (const admin of [ONE, TWO]) await until(async () => (await post(gateway.registrar(admin))).status === 200);
  }
  await one.faults.set({ kind: "429", retryAfter: "30", times: 1 });
  expect(await post(here.registrar(ONE))).toMatchObject({ status: 429 });
  const before = [one.calls.total, two.calls.total];
  expect(await post(here.registrar(TWO))).toMatchObject({
    status: 429,
    error: expect.stringContaining("answered 429"),
  });
  await until(async () => (await post(there.registrar(TWO))).status === 429);
  for (const gateway of [here, there]) {
    for (const admin of [ONE, TWO]) {
      const { status, retryAfter } = await post(gateway.registrar(admin));
      expect(status).toBe(429);
      expect(retryAfter).toBeGreaterThan(20);
      expect(retryAfter).toBeLessThanOrEqual(30);
    }
  }
  // The other replica may have made one before it heard.
  expect(one.calls.total + two.calls.total - before[0]! - before[1]!).toBeLessThanOrEqual(1);
  expect(
    here.lines.concat(there.lines).filter(({ msg }) => msg === "upstream answered 429: calling it less"),
  ).toHaveLength(1);
});
