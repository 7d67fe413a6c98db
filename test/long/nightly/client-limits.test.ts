import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { type RedisServer, startRedis } from "../../support/redis.ts";
import { until } from "../../support/until.ts";
import { DSO } from "../../support/sample.ts";

const PAGE = "/registry/metadata/v1/instruments";
const BURST = { requests: 50, per: 2_000 };
const WHOLE = { requests: 100, per: 10_000 };
const SECONDS = 60;
/** More than is granted, whatever the machine is like, and no more than it can do. */
const SENT_PER_SECOND = 60;

let redis: RedisServer;
const replicas: GatewayProcess[] = [];
const closing: (() => Promise<unknown>)[] = [];

/** A registry with one page of instruments. */
async function startRegistry(): Promise<string> {
  const server = createServer((incoming, response) => {
    const instrument = { id: "Amulet", name: "Amulet", symbol: "AMT", decimals: 10, supportedApis: {} };
    const body = incoming.url!.endsWith("/info")
      ? { adminId: DSO, supportedApis: { "splice-api-token-metadata-v1": 1 } }
      : { instruments: [instrument] };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => new Promise((resolve) => server.close(resolve).closeAllConnections()));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  redis = await startRedis();
  closing.push(() => redis.stop());
  const tier = { requests: WHOLE.requests, per: "10s", burst: { requests: BURST.requests, per: "2s" } };
  const keys = {
    redis: { url: redis.url },
    clients: { anonymous: "browser", tiers: { browser: tier } },
    cache: { ttl: { instruments: "1h" } },
    upstreams: [{ name: "amulet", admin: DSO, urls: [await startRegistry()] }],
  };
  for (let i = 0; i < 4; i += 1) {
    const replica = await GatewayProcess.start(keys);
    replicas.push(replica);
    closing.push(() => replica.stop());
  }
  await until(() => isRedisUp());
}, 300_000);

afterAll(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function isRedisUp(): Promise<boolean> {
  const states = await Promise.all(
    replicas.map(async (replica) => (await replica.status<{ redis: { state: string } }>()).redis.state),
  );
  return states.every((state) => state === "up");
}

/** What became of the requests of one client, which meets every replica: each goes over a connection of its own. */
interface Outcome {
  readonly statuses: Record<string, number>;
  /** Milliseconds since the begin at which a granted request was answered. */
  readonly granted: readonly number[];
  readonly seconds: number;
}

async function sendFor(seconds: number): Promise<Outcome> {
  const statuses: Record<string, number> = {};
  const granted: number[] = [];
  const start = performance.now();
  const sent: Promise<void>[] = [];
  const sendOne = async (url: string): Promise<void> => {
    const dispatcher = new Agent({ pipelining: 0 });
    let outcome: string;
    try {
      const { statusCode, headers, body } = await request(url + PAGE, { dispatcher });
      await body.dump();
      outcome = String(statusCode);
      if (statusCode === 200) granted.push(performance.now() - start);
      if (statusCode === 429 && !(Number(headers["retry-after"]) >= 1)) outcome = "429 without Retry-After";
    } catch (error) {
      outcome = (error as NodeJS.ErrnoException).code ?? String(error);
    }
    statuses[outcome] = (statuses[outcome] ?? 0) + 1;
    await dispatcher.close();
  };
  for (let i = 0; performance.now() - start < seconds * 1_000; i += 1) {
    sent.push(sendOne(replicas[i % replicas.length]!.url));
    const late = start + (i * 1_000) / SENT_PER_SECOND - performance.now();
    if (late > 0) await sleep(late);
  }
  await Promise.all(sent);
  return { statuses, granted, seconds: (performance.now() - start) / 1_000 };
}

/** The most that was granted in any window of `per`. */
function mostIn({ granted }: Outcome, per: number): number {
  const sorted = granted.toSorted((a, b) => a - b);
  let begin = 0;
  let largest = 0;
  for (const [end, at] of sorted.entries()) {
    while (at - sorted[begin]! > per) begin += 1;
    largest = Math.max(largest, end - begin + 1);
  }
  return largest;
}

/** Answers do not all travel equally long: what was granted in a window arrives in a slightly shorter one. */
const TRAVEL = 50;

function expectWithin(outcome: Outcome): void {
  expect(Object.keys(outcome.statuses).toSorted()).toEqual(["200", "429"]);
  for (const { requests, per } of [WHOLE, BURST]) {
    expect(mostIn(outcome, per - TRAVEL)).toBeLessThanOrEqual(requests * 1.1);
  }
}

test("four replicas grant what the limit says in any window of either length, within a tenth", async () => {
  const outcome = await sendFor(SECONDS);
  expectWithin(outcome);
  expect(outcome.granted.length).toBeGreaterThanOrEqual((WHOLE.requests * SECONDS * 1_000 * 0.9) / WHOLE.per);
});

test("and never more than a tenth too much when Redis is killed midway, with no error but 429", async () => {
  const sending = sendFor(SECONDS);
  await sleep(SECONDS * 333);
  await redis.kill();
  await sleep(SECONDS * 333);
  await redis.start();
  const outcome = await sending;
  expectWithin(outcome);
  expect(outcome.granted.length).toBeGreaterThanOrEqual((WHOLE.requests * SECONDS * 1_000 * 0.6) / WHOLE.per);
});
