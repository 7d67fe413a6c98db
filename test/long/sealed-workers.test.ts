import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, request } from "undici";
import { afterEach, expect, test } from "vitest";
import { RealProcess } from "../support/real-process.ts";
import { type RedisServer, startRedis, until } from "../support/redis.ts";
import { DSO } from "../support/sample.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { sealKey } from "../support/seal-keys.ts";

const startRegistry = useSampleRegistries();

const PAGE = "/registry/metadata/v1/instruments";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";
const REJECTED = "registry_gateway_redis_rejected_values_total";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

interface Answer {
  readonly status: number;
  readonly cacheStatus: string;
  readonly retryAfter: number;
  readonly text: string;
}

/** Asked over a connection of its own: the next one reaches another worker. */
async function ask(url: string, options: { method?: "POST"; body?: string } = {}): Promise<Answer> {
  const agent = new Agent();
  const { statusCode, headers, body } = await request(url, {
    dispatcher: agent,
    headers: { "content-type": "application/json" },
    ...options,
  });
  const text = await body.text();
  await agent.close();
  const [cacheStatus, retryAfter] = [String(headers["cache-status"]), Number(headers["retry-after"])];
  return { status: statusCode, cacheStatus, retryAfter, text };
}

/** Asks for each page so often that each worker has been asked. */
async function askAll(gateway: RealProcess, pages: readonly string[], times = 6): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let i = 0; i < times; i += 1) for (const page of pages) answers.push(await ask(gateway.url + page));
  return answers;
}

function keyFiles() {
  const folder = mkdtempSync(join(tmpdir(), "gateway-sealed-workers-"));
  closing.push(async () => rmSync(folder, { recursive: true, force: true }));
  return (file: string, ...names: string[]): string => {
    const path = join(folder, file);
    writeFileSync(path, `${names.map(sealKey).join("\n")}\n`, { mode: 0o600 });
    return path;
  };
}

async function scene() {
  const redis = await startRedis();
  closing.push(() => redis.stop());
  const [amulet, funds] = [await startRegistry(), await startRegistry({ admin: "Funds::1220aa" })];
  const rateLimit = { requests: 10_000, per: "1m", group: "host" };
  const start = async (sealKeyFile: string | undefined): Promise<RealProcess> => {
    const gateway = await RealProcess.start({
      workers: 2,
      ...(sealKeyFile !== undefined && { redis: { url: redis.url, sealKeyFile } }),
      shutdown: { grace: "0s", timeout: "5s" },
      cache: { ttl: { instruments: "1h" }, staleWhileRevalidate: "0s" },
      upstreams: [
        { name: "amulet", admin: DSO, urls: [amulet.url], rateLimit },
        { name: "funds", admin: funds.admin, urls: [funds.url], rateLimit },
      ],
    });
    closing.push(() => gateway.dispose());
    const redisState = async () => (await gateway.status<{ redis: { state?: string } }>()).redis.state;
    if (sealKeyFile !== undefined) await until(async () => (await redisState()) === "up");
    return gateway;
  };
  return { redis, amulet, funds, start };
}

const at = (name: string, page: string) => `/api/token-standard/v0/registrars/${name}${page}`;

async function entryKeys({ client }: RedisServer): Promise<string[]> {
  return (await client.keys("rg:{*}:*!:*")).filter((key) => /:\d+!:/.test(key)).toSorted();
}

test("two replicas of two workers share sealed entries, and the key is changed without a cold cache", async () => {
  const { redis, amulet, start } = await scene();
  const keyFile = keyFiles();
  const [first, second] = [await start(keyFile("first", "old")), await start(keyFile("second", "old"))];
  const [page, other] = [at("amulet", `${PAGE}?pageSize=2`), at("amulet", `${PAGE}?pageSize=3`)];
  const genuine = (await ask(first.url + page)).text;
  const fetched = () => amulet.calls.count("instruments");
  expect(fetched()).toBe(1);
  await until(async () => (await entryKeys(redis)).length === 1);
  for (const gateway of [first, second]) {
    for (const { cacheStatus, text } of await askAll(gateway, [page])) {
      expect([cacheStatus, text]).toEqual([expect.stringContaining(";hit"), genuine]);
    }
  }
  expect(fetched()).toBe(1);

  // Each worker looks at the file within 10 s. One that has not yet finds nothing sealed by the new key.
  const change = async (...names: string[]): Promise<void> => {
    for (const file of ["first", "second"]) keyFile(file, ...names);
    const changed = performance.now();
    await until(() => performance.now() - changed > 12_000, 20_000);
  };
  await change("old", "new");
  await change("new", "old");
  await ask(first.url + other);
  await until(async () => (await entryKeys(redis)).length === 2);
  expect((await askAll(second, [page, other])).every(({ cacheStatus }) => cacheStatus.includes(";hit"))).toBe(true);
  expect(fetched()).toBe(2);
  // One that has nothing in memory reads both from Redis.
  const third = await start(keyFile("third", "new", "old"));
  const cold = await askAll(third, [page, other]);
  expect(cold.every(({ cacheStatus }) => cacheStatus.includes(";hit"))).toBe(true);
  expect(cold.slice(0, 2).every(({ cacheStatus }) => cacheStatus.includes("detail=shared"))).toBe(true);
  expect(fetched()).toBe(2);
  for (const gateway of [first, second, third]) expect(await gateway.metric(REJECTED, 'reason="seal"')).toBe(0);
  // One that has the new key alone finds what it sealed, and counts the rest.
  const fourth = await start(keyFile("fourth", "new"));
  expect((await ask(fourth.url + other)).cacheStatus).toContain(";hit");
  expect(fetched()).toBe(2);
  const answers = await askAll(fourth, [page]);
  expect(answers.map(({ status, text }) => [status, text])).toEqual(answers.map(() => [200, genuine]));
  expect(fetched()).toBe(3);
  expect(await fourth.metric(REJECTED, 'value="entry",reason="seal"')).toBeGreaterThanOrEqual(1);
});

test("what is forged in Redis is a miss for every worker, and counted", async () => {
  const { redis, amulet, funds, start } = await scene();
  const file = keyFiles()("key", "one");
  const first = await start(file);
  const pages = [at("amulet", PAGE), at("amulet", `${PAGE}?pageSize=2`), at("funds", PAGE)];
  const genuine = await Promise.all(pages.map(async (page) => (await ask(first.url + page)).text));
  await until(async () => (await entryKeys(redis)).length === pages.length);
  const keys = await entryKeys(redis);
  const values = await Promise.all(keys.map(async (key) => (await redis.client.hgetBuffer(key, "v"))!));
  // Each has the value of another one, and one of them another byte besides.
  values[0]![values[0]!.length - 3]! ^= 1;
  for (const [index, key] of keys.entries()) await redis.client.hset(key, "v", values[(index + 1) % keys.length]!);
  const before = amulet.calls.count("instruments") + funds.calls.count("instruments");

  const second = await start(file);
  for (let round = 0; round < 3; round += 1) {
    for (const [index, { status, text }] of (await askAll(second, pages)).entries()) {
      expect([status, text]).toEqual([200, genuine[index % pages.length]]);
    }
  }
  const fetched = amulet.calls.count("instruments") + funds.calls.count("instruments") - before;
  expect(fetched).toBe(pages.length);
  expect(await second.metric(REJECTED, 'value="entry",reason="seal"')).toBeGreaterThanOrEqual(pages.length);
  expect(second.said("internal error")).toEqual([]);
});

test.each([2, 1])("a 429 to one worker holds the group back in every worker, of replicas: %i", async (count) => {
  const { amulet, funds, start } = await scene();
  // One alone has no Redis.
  const file = count === 1 ? undefined : keyFiles()("key", "one");
  const replicas: RealProcess[] = [];
  for (let i = 0; i < count; i += 1) replicas.push(await start(file));
  const post = (gateway: RealProcess, name: string) =>
    ask(gateway.url + at(name, ACCEPT), { method: "POST", body: "{}" });
  const postAll = (gateway: RealProcess) =>
    Promise.all(Array.from({ length: 6 }, () => ["amulet", "funds"].map((name) => post(gateway, name))).flat());
  for (const gateway of replicas) {
    await until(async () => (await postAll(gateway)).every(({ status }) => status === 200));
  }
  await amulet.faults.set({ kind: "429", retryAfter: "40", times: 1 });
  expect((await post(replicas[0]!, "amulet")).status).toBe(429);
  for (const gateway of replicas) {
    await until(async () => (await postAll(gateway)).every(({ status }) => status === 429), 5_000);
  }
  const before = amulet.calls.total + funds.calls.total;
  for (const gateway of replicas) {
    for (const { status, retryAfter } of await postAll(gateway)) {
      expect(status).toBe(429);
      expect(retryAfter).toBeGreaterThan(20);
    }
  }
  expect(amulet.calls.total + funds.calls.total).toBe(before);
});
