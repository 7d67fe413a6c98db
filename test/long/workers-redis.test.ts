import { Agent, request } from "undici";
import { afterEach, expect, test, vi } from "vitest";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { type RedisServer, startRedis, until } from "../support/redis.ts";
import { RealProcess } from "../support/real-process.ts";

// Several processes have to start on a machine that may be busy with other tests.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const registry = useSampleRegistries();
let redis: RedisServer | undefined;
let gateway: RealProcess | undefined;

afterEach(async () => {
  await gateway?.dispose();
  await redis?.stop();
});

const PAGE = "/registry/metadata/v1/instruments";

async function once(url: string): Promise<string> {
  const agent = new Agent();
  const { headers, body } = await request(url, { dispatcher: agent });
  await body.dump();
  await agent.close();
  return String(headers["cache-status"]);
}

test("with Redis every worker is a replica: what one fetched the others have, and purges speak for all replicas", async () => {
  const amulet = await registry();
  redis = await startRedis();
  gateway = await RealProcess.start({
    workers: 2,
    redis: { url: redis.url },
    cache: { ttl: { instruments: "1h" } },
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
  });
  const { operations, url } = gateway;
  const stateOfRedis = async () => (await gateway!.status<{ redis: { state: string } }>()).redis.state;
  await until(async () => (await stateOfRedis()) === "up");

  const before = amulet.calls.count("instruments");
  const answers = [await once(url + PAGE), await once(url + PAGE), await once(url + PAGE), await once(url + PAGE)];
  expect(answers[0]).toContain("fwd=uri-miss");
  expect(answers.slice(1).every((each) => each.includes("hit"))).toBe(true);
  expect(amulet.calls.count("instruments") - before).toBe(1);

  const purge = () =>
    fetch(`${operations}/purge`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
  expect(await (await purge()).json()).toEqual({ purged: {}, scope: "fleet" });
  expect(await once(url + PAGE)).toContain("fwd=uri-miss");
  expect(await once(url + PAGE)).toContain("hit");

  const explained = async () => {
    const response = await fetch(`${operations}/explain?path=${encodeURIComponent(PAGE)}`);
    return ((await response.json()) as { explanation: { entries: { worker: number; purged: boolean }[] } }).explanation
      .entries;
  };
  // Asked until both workers have it.
  await until(async () => {
    await once(url + PAGE);
    return new Set((await explained()).map(({ worker }) => worker)).size === 2;
  });

  await redis.kill();
  await until(async () => (await stateOfRedis()) === "away");
  const pending = await purge();
  expect(pending.status).toBe(503);
  // Done here all the same, in every worker.
  expect((await explained()).every(({ purged }) => purged)).toBe(true);
  expect((await fetch(`${operations}/readyz`)).status).toBe(200);
});
