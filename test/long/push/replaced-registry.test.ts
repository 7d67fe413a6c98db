import { Agent, request } from "undici";
import { afterEach, describe, expect, test, onTestFinished } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { measureLoopTime } from "../../support/loop-time.ts";
import { SampleRegistry } from "../../support/sample-registry.ts";
import { DSO, UTILITY_ADMIN } from "../../support/sample.ts";
import { type GatewayUnderTest, startGateway } from "../../support/gateway.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/until.ts";

const LIST = "/registry/metadata/v1/instruments";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";
const DRAFT = "/registry/drafts/v1/x";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function startRegistry(admin: string, port = 0): Promise<SampleRegistry> {
  const registry = new SampleRegistry({ admin, clock: systemClock(), port });
  await registry.start();
  closing.push(() => registry.stop());
  return registry;
}

/** The registry ends, and another one begins at its address. */
async function replace(registry: SampleRegistry): Promise<SampleRegistry> {
  const port = Number(new URL(registry.url).port);
  await registry.stop();
  return startRegistry(UTILITY_ADMIN, port);
}

function requestsOf({ calls }: SampleRegistry): number {
  return calls.total - calls.count("info");
}

function keysOf({ url }: SampleRegistry, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    cache: { ttl: { instruments: "1h" } },
    upstreams: [{ name: "amulet", admin: DSO, urls: [url] }],
    ...more,
  };
}

async function gatewayWith(keys: Record<string, unknown>): Promise<GatewayUnderTest> {
  const gateway = await startGateway(keys);
  closing.push(() => gateway.stop());
  return gateway;
}

/** One request on a connection of its own. */
async function once(url: string, method: "GET" | "POST" = "GET") {
  const agent = new Agent();
  const { statusCode, headers, body } = await request(url, { dispatcher: agent, method });
  await body.dump();
  await agent.close();
  return { status: statusCode, cacheStatus: String(headers["cache-status"]) };
}

interface Status {
  readonly upstreams: readonly { readonly state: string }[];
}

describe("a registry that is replaced by another one", () => {
  test("under the load of 32 clients: none of their requests reaches it", async () => {
    const registry = await startRegistry(DSO);
    const { url } = await gatewayWith(keysOf(registry));
    const end = new AbortController();
    onTestFinished(() => end.abort());
    const statuses: number[] = [];
    const clients = Array.from({ length: 32 }, async (_, i) => {
      while (!end.signal.aborted) {
        const path = [ACCEPT, ACCEPT, DRAFT, `${LIST}?pageSize=${(statuses.length % 20) + 1}`][i % 4]!;
        const method = path.startsWith(LIST) ? "GET" : "POST";
        const headers = { "content-type": "application/json" };
        const answer = await fetch(url + path, { method, ...(method === "GET" ? {} : { body: "{}", headers }) });
        await answer.arrayBuffer();
        statuses.push(answer.status);
      }
    });
    await registry.calls.reached(100);
    const other = await replace(registry);
    const before = statuses.length;
    await until(() => statuses.length > before + 100);
    end.abort();
    await Promise.all(clients);
    expect(other.calls.count("info")).toBeGreaterThan(0);
    expect(requestsOf(other)).toBe(0);
    // 503 while the breaker is open, because of the moment in which nothing was there.
    expect(statuses.slice(-32).filter((status) => status !== 502 && status !== 503)).toEqual([]);
    await until(async () => (await once(url + ACCEPT, "POST")).status === 502);
  });

  test("after an idle time: its pages are gone from memory, from Redis, and from a second replica within 2 s", async () => {
    const redis = await startRedis();
    closing.push(() => redis.stop());
    const registry = await startRegistry(DSO);
    const keys = keysOf(registry, { redis: { url: redis.url } });
    const [first, second] = [await gatewayWith(keys), await gatewayWith(keys)];
    expect((await once(first.url + LIST)).cacheStatus).toContain("fwd=uri-miss");
    await until(async () => (await once(second.url + LIST)).cacheStatus.includes("hit"));
    expect((await once(first.url + LIST)).cacheStatus).toContain("hit");

    const other = await replace(registry);
    expect((await once(first.url + ACCEPT, "POST")).status).toBe(502);
    const took = measureLoopTime();
    await until(async () => (await once(second.url + LIST)).status === 502);
    expect(took()).toBeLessThan(10_000);
    expect((await once(first.url + LIST)).status).toBe(502);
    for (const { operations } of [first, second]) {
      const { upstreams } = (await (await fetch(`${operations}/status`)).json()) as Status;
      expect(upstreams[0]!.state).toBe("wrong-admin");
    }
    const third = await gatewayWith(keys);
    expect((await once(third.url + LIST)).status).toBe(502);
    expect(requestsOf(other)).toBe(0);
  });

  test("found out by one replica while the others have open connections: they know within 2 s", async () => {
    const redis = await startRedis();
    closing.push(() => redis.stop());
    const registry = await startRegistry(DSO);
    const keys = keysOf(registry, { redis: { url: redis.url } });
    const replicas = [await gatewayWith(keys), await gatewayWith(keys), await gatewayWith(keys)];
    for (const { url } of replicas) expect((await once(url + DRAFT, "POST")).status).toBeLessThan(500);
    // The same process, and so the same connections, names another admin from now on.
    await registry.faults.set({ kind: "wrong-admin", admin: UTILITY_ADMIN, operations: ["info"] });
    expect((await once(`${replicas[0]!.url}/registry/metadata/v1/info`)).status).toBe(502);
    const took = measureLoopTime();
    await until(async () => {
      const answers = await Promise.all(replicas.map(({ url }) => once(url + DRAFT, "POST")));
      return answers.every(({ status }) => status === 502);
    });
    expect(took()).toBeLessThan(10_000);
  });
});
