import { afterEach, expect, test } from "vitest";
import { measureLoopTime } from "../support/loop-time.ts";
import { get, instrumentsOf } from "../support/aggregate-registries.ts";
import { ownError } from "../support/own-error.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { AT_ONCE } from "../../src/bodies/body-reader.ts";
import { until } from "../support/until.ts";
import { thisReplica } from "../../src/version.ts";

const registry = useSampleRegistries();
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

type Registry = Awaited<ReturnType<typeof registry>>;

const PAGE = "/registry/metadata/v1/instruments";

async function redisServer() {
  const server = await startRedis();
  closing.push(() => server.stop());
  return server;
}

async function gatewayOn(
  redis: { url: string },
  { url }: Registry,
  admin?: string,
  cache: object = {},
): Promise<GatewayUnderTest> {
  const gateway = await startGateway({
    redis: { url: redis.url },
    cache: { ttl: { instruments: "1h" }, ...cache },
    upstreams: [{ name: "amulet", ...(admin === undefined ? {} : { admin }), urls: [url] }],
  });
  closing.push(() => gateway.stop());
  return gateway;
}

async function cacheStatus({ url }: GatewayUnderTest): Promise<string> {
  const answer = await fetch(url + PAGE);
  await answer.arrayBuffer();
  return answer.headers.get("cache-status")!;
}

function purge({ operations }: GatewayUnderTest): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return fetch(`${operations}/purge`, { method: "POST", headers, body: '{"upstream":"amulet"}' });
}

/** A replica whose page is in Redis. */
async function warm(redis: RedisServer, sample: Registry): Promise<GatewayUnderTest> {
  const gateway = await gatewayOn(redis, sample, sample.admin);
  expect(await cacheStatus(gateway)).toContain("fwd=uri-miss");
  await until(async () => (await redis.client.keys("rg:{*}:6:*")).length > 0);
  return gateway;
}

async function metricsOf({ operations }: GatewayUnderTest): Promise<string> {
  return (await fetch(`${operations}/metrics`)).text();
}

async function statusOf({ operations }: GatewayUnderTest) {
  const status = await (await fetch(`${operations}/status`)).json();
  return status as {
    cache: { memory: { entries: number; bytes: number; maxBytes: number } };
    redis: { state: string; purgeLagMs: number | null; leases: { held: number; awaited: number } };
  };
}

test("a replica that starts beside a warm Redis serves its very first request from it", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  await warm(redis, sample);
  const calls = sample.calls.count("instruments");
  for (let i = 0; i < 3; i += 1) {
    expect(await cacheStatus(await gatewayOn(redis, sample, sample.admin))).toContain("detail=shared");
  }
  expect(sample.calls.count("instruments")).toBe(calls);
});

test("an instrument on a page that another replica fetched costs no call, and is there while the registry is away", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  const first = await warm(redis, sample);
  const { instruments } = (await (await fetch(first.url + PAGE)).json()) as { instruments: { id: string }[] };
  const [{ id }] = instruments as [{ id: string }];
  const [second, third] = [await gatewayOn(redis, sample, sample.admin), await gatewayOn(redis, sample, sample.admin)];
  expect(await cacheStatus(second)).toContain("detail=shared");
  expect((await fetch(`${second.url}${PAGE}/${encodeURIComponent(id)}`)).status).toBe(200);
  expect(sample.calls.count("instrument")).toBe(0);

  expect(await cacheStatus(third)).toContain("detail=shared");
  await sample.faults.set({ kind: "reset" });
  const answer = await fetch(`${third.url}${PAGE}/${encodeURIComponent(id)}`);
  expect([answer.status, await answer.json()]).toEqual([200, expect.objectContaining({ id })]);
});

test("a replica that starts finds instruments on the page in Redis, and does not ask for them one by one", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  const first = await warm(redis, sample);
  const { instruments } = (await (await fetch(first.url + PAGE)).json()) as { instruments: { id: string }[] };
  const second = await gatewayOn(redis, sample, sample.admin);
  for (const { id } of instruments) {
    expect((await fetch(`${second.url}${PAGE}/${encodeURIComponent(id)}`)).status).toBe(200);
  }
  expect(sample.calls.count("instrument")).toBe(0);
});

test("a large page in Redis, which a thread takes apart, has its instruments at once for all who ask together", async () => {
  const [redis, sample] = [await redisServer(), await registry({ instruments: 400, defaultPageSize: 400 })];
  const first = await warm(redis, sample);
  const text = await (await fetch(first.url + PAGE)).text();
  expect(text.length).toBeGreaterThan(AT_ONCE);
  const { instruments } = JSON.parse(text) as { instruments: { id: string }[] };
  const second = await gatewayOn(redis, sample, sample.admin);
  // The thread takes its time to start.
  const body = JSON.stringify({ choiceArguments: { text: "x".repeat(2 * AT_ONCE) } });
  const factory = `${second.url}/registry/transfer-instruction/v1/transfer-factory`;
  await (await fetch(factory, { method: "POST", headers: { "content-type": "application/json" }, body })).text();
  const asking = instruments.slice(0, 50).map(({ id }) => fetch(`${second.url}${PAGE}/${encodeURIComponent(id)}`));
  for (const answer of await Promise.all(asking)) expect(answer.status).toBe(200);
  expect(sample.calls.count("instrument")).toBe(0);
});

test("an old instrument in Redis does not hide the newer one on a page there", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  const cache = { ttl: { instruments: "1h", instrument: "100ms" }, staleWhileRevalidate: "0s" };
  const first = await gatewayOn(redis, sample, sample.admin, cache);
  const { instruments } = (await (await fetch(sample.url + PAGE)).json()) as { instruments: { id: string }[] };
  const path = `${PAGE}/${encodeURIComponent(instruments[0]!.id)}`;
  expect((await fetch(first.url + path)).headers.get("cache-status")).toContain("fwd=uri-miss");
  await until(async () => (await redis.client.keys("rg:{*}:6:*")).length === 1);
  expect(await cacheStatus(first)).toContain("fwd=uri-miss");
  await until(async () => (await redis.client.keys("rg:{*}:6:*")).length === 2);
  const second = await gatewayOn(redis, sample, sample.admin);
  expect((await fetch(second.url + path)).headers.get("cache-status")).not.toContain("fwd");
  expect(sample.calls.count("instrument")).toBe(1);
});

test("a client that wants an instrument validated does not get it from a page that another replica fetched", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  const first = await warm(redis, sample);
  const { instruments } = (await (await fetch(first.url + PAGE)).json()) as { instruments: { id: string }[] };
  const second = await gatewayOn(redis, sample, sample.admin, { honorClient: true, clientFloor: "0s" });
  expect(await cacheStatus(second)).toContain("detail=shared");
  const path = `${PAGE}/${encodeURIComponent(instruments[0]!.id)}`;
  const headers = { "cache-control": "no-cache" };
  expect((await fetch(second.url + path, { headers })).status).toBe(200);
  expect(sample.calls.count("instrument")).toBe(1);
});

test("an instrument that was purged is not answered from a page that another replica fetched before", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  const first = await warm(redis, sample);
  const { instruments } = (await (await fetch(first.url + PAGE)).json()) as { instruments: { id: string }[] };
  const second = await gatewayOn(redis, sample, sample.admin);
  expect(await cacheStatus(second)).toContain("detail=shared");
  const [{ id }] = instruments as [{ id: string }];
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ upstream: "amulet", endpoint: "instrument", instrument: id });
  expect((await fetch(`${first.operations}/purge`, { method: "POST", headers, body })).status).toBe(200);
  await until(async () => (await statusOf(second)).redis.purgeLagMs !== null);
  expect((await fetch(`${second.url}${PAGE}/${encodeURIComponent(id)}`)).status).toBe(200);
  expect(sample.calls.count("instrument")).toBe(1);
});

test("a start does not wait longer than a second for a Redis that is away", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  await redis.kill();
  const took = measureLoopTime();
  expect(await cacheStatus(await gatewayOn(redis, sample, sample.admin))).toContain("fwd=uri-miss");
  expect(took()).toBeLessThan(5_000);
});

test("a purge of an upstream whose admin has yet to be learned reaches what Redis has of it", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  await warm(redis, sample);
  const replica = await gatewayOn(redis, sample);
  const answer = await purge(replica);
  const replicas = { took: expect.arrayContaining([expect.objectContaining({ name: thisReplica.name })]), missing: [] };
  expect([answer.status, await answer.json()]).toMatchObject([200, { scope: "fleet", replicas }]);
  expect(await cacheStatus(replica)).not.toContain("hit");
});

test("a purge is refused while the admin cannot be learned", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  await sample.faults.set({ kind: "hang" });
  const replica = await gatewayOn(redis, sample);
  const answer = await purge(replica);
  expect([answer.status, await answer.json()]).toEqual([503, ownError(/nothing was purged/)]);
});

test("status and metrics show both tiers, the lease and the lag of purges", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  const first = await warm(redis, sample);
  const second = await gatewayOn(redis, sample, sample.admin);
  expect(await statusOf(first)).toMatchObject({
    cache: { memory: { entries: expect.any(Number), bytes: expect.any(Number), maxBytes: 64 * 2 ** 20 } },
    redis: { configured: true, state: "up", purgeLagMs: null, leases: { held: 0, awaited: 0 } },
  });

  expect(await cacheStatus(second)).toContain("detail=shared");
  expect((await purge(first)).status).toBe(200);
  await until(async () => (await statusOf(second)).redis.purgeLagMs !== null);
  expect((await statusOf(second)).redis.purgeLagMs).toBeLessThan(5_000);

  await sample.faults.set({ kind: "slow", delay: 2_000 });
  const asked = [cacheStatus(first)];
  await until(async () => (await statusOf(first)).redis.leases.held === 1);
  asked.push(cacheStatus(second));
  await until(async () => (await statusOf(second)).redis.leases.awaited === 1);
  expect(await metricsOf(first)).toContain('registry_gateway_leases{state="held"} 1\n');
  expect(await metricsOf(second)).toContain('registry_gateway_leases{state="awaited"} 1\n');
  await Promise.all(asked);
  await until(async () => (await statusOf(first)).redis.leases.held === 0);
});

test("a page that was asked for before another replica received an instrument does not hide it", async () => {
  const [redis, sample] = [await redisServer(), await registry()];
  const [one, other] = [await gatewayOn(redis, sample, sample.admin), await gatewayOn(redis, sample, sample.admin)];
  const [instrument] = instrumentsOf("A", 1);
  const page = Promise.withResolvers<void>();
  sample.script(async ({ operation }) => {
    if (operation === "instrument") return { status: 200, body: JSON.stringify({ ...instrument, name: "newer" }) };
    if (operation !== "instruments") return undefined;
    await page.promise;
    return { status: 200, body: JSON.stringify({ instruments: [{ ...instrument, name: "older" }] }) };
  });
  const asked = sample.calls.count("instruments");
  const listed = get(other.url + PAGE);
  await until(() => sample.calls.count("instruments") > asked);
  expect((await get(`${one.url}${PAGE}/A-00000`)).json.name).toBe("newer");
  await until(async () => (await redis.client.keys("rg:{*}:6:*")).length > 0);
  page.resolve();
  expect((await listed).text).toContain("older");
  for (const tier of ["detail=shared", "hit"]) {
    const found = await get(`${other.url}${PAGE}/A-00000`);
    expect([found.json.name, found.headers.get("cache-status")]).toEqual(["newer", expect.stringContaining(tier)]);
  }
  expect(sample.calls.count("instrument")).toBe(1);
});
