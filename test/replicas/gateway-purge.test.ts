import { describe, expect, test } from "vitest";
import { CACHED } from "../support/caching.ts";
import { INFO, LIST } from "../support/endpoints.ts";
import { startGateway, type TestGateway, type Values } from "../support/gateway.ts";
import { startRedis } from "../support/redis.ts";
import { startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";

/** So many gateways over one Redis, once all of them are connected. */
async function startReplicas(count: number, url: string, values: Values): Promise<TestGateway[]> {
  const gateways: TestGateway[] = [];
  for (let at = 0; at < count; at += 1) gateways.push(await startGateway({ redis: { url }, ...values }));
  for (const gateway of gateways) await until(async () => (await gateway.operations.status()).redis.redis === "up");
  return gateways;
}

describe("three replicas over one Redis", () => {
  test("fetch each key once", async () => {
    const amulet = await startRegistry("amulet");
    const redis = await startRedis();
    const gateways = await startReplicas(3, redis.url, { upstreams: [amulet] });
    for (const gateway of gateways) await gateway.get(INFO);
    for (const { path, operation } of CACHED.slice(1)) {
      amulet.calls.length = 0;
      const release = amulet.hold(operation);
      const asked = gateways.flatMap((gateway) => Array.from({ length: 10 }, () => gateway.get(path)));
      await amulet.reached(1, operation);
      release();
      const answers = await Promise.all(asked);
      expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
      expect(answers[0]!.status).toBe(200);
      expect(amulet.count(operation)).toBe(1);
    }
  });

  test("serve what another fetched, with its age", async () => {
    const amulet = await startRegistry("amulet");
    amulet.on("instruments", { fields: ["Cache-Control", "max-age=100", "Age", "40"], body: { instruments: [] } });
    const redis = await startRedis();
    const [one, other] = await startReplicas(2, redis.url, { upstreams: [amulet] });
    await one!.get(LIST);
    const answer = await until(async () => {
      const got = await other!.get(LIST);
      return got.cache === "hit" && got;
    });
    expect(Number(answer.headers.age)).toBeGreaterThanOrEqual(40);
    expect(answer.headers["cache-control"]).toBe("max-age=100");
    expect(amulet.count("instruments")).toBe(1);
  });

  test("serve nothing from before a purge, 250 ms after its answer, wherever it was asked for", async () => {
    const amulet = await startRegistry("amulet");
    const redis = await startRedis();
    const gateways = await startReplicas(3, redis.url, {
      cache: { ttl: { info: "10m", instruments: "10m", instrument: "10m" } },
      upstreams: [amulet],
    });
    let generation = 0;
    amulet.on("instruments", () => ({ body: { instruments: [], generation } }));
    for (let round = 0; round < 4; round += 1) {
      for (const gateway of gateways) expect((await gateway.get(LIST)).json.generation).toBe(generation);
      generation += 1;
      const purging = gateways[round % 3]!;
      // On a machine so busy that Redis was late, it is 503: purged here alone until Redis is back.
      await until(async () => (await purging.operations.purge(round % 2 === 0 ? "amulet" : undefined)).status === 200);
      expect((await purging.get(LIST)).json.generation).toBe(generation);
      await new Promise((resolve) => setTimeout(resolve, 250));
      for (const gateway of gateways) expect((await gateway.get(LIST)).json.generation).toBe(generation);
    }
  });

  test("a purge with Redis away is done here, says so, and is written before that Redis is read again", async () => {
    const amulet = await startRegistry("amulet");
    const redis = await startRedis();
    const [one, other] = await startReplicas(2, redis.url, {
      cache: { ttl: { instruments: "10m" } },
      upstreams: [amulet],
    });
    let generation = 0;
    amulet.on("instruments", () => ({ body: { instruments: [], generation } }));
    for (const gateway of [one!, other!]) await gateway.get(LIST);
    redis.pause();
    generation = 1;
    const purge = await one!.operations.purge("amulet");
    expect([purge.status, purge.json.code]).toEqual([503, "purge_pending"]);
    expect((await one!.get(LIST)).json.generation).toBe(1);
    redis.resume();
    await until(async () => (await other!.get(LIST)).json.generation === 1);
    expect((await one!.get(LIST)).json.generation).toBe(1);
  });

  test("a new replica serves nothing from before a purge", async () => {
    const amulet = await startRegistry("amulet");
    const redis = await startRedis();
    const values = { cache: { ttl: { instruments: "10m" } }, upstreams: [amulet] };
    const [one] = await startReplicas(1, redis.url, values);
    amulet.on("instruments", { body: { instruments: [], generation: 0 } });
    await one!.get(LIST);
    await one!.operations.purge("amulet");
    amulet.on("instruments", { body: { instruments: [], generation: 1 } });
    const [late] = await startReplicas(1, redis.url, values);
    expect((await late!.get(LIST)).json.generation).toBe(1);
  });
});
