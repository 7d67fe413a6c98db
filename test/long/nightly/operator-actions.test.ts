import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { startRedis } from "../../support/redis.ts";
import { SampleRegistry } from "../../support/sample-registry.ts";
import { until } from "../../support/until.ts";
import { DSO } from "../../support/sample.ts";
import { SteadyLoad } from "../../support/steady-load.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

/** Requests a second, of which a quarter are calls to the registry. */
const RATE = 1_000;
/** A cordon has effect everywhere within. */
const BOUND = 2_000;

interface Status {
  readonly inForce: readonly { readonly state: string; readonly node: number }[];
  readonly upstreams: readonly { readonly nodes: readonly { readonly state: string; readonly cordoned: boolean }[] }[];
}

async function startAll(replicas: number, keys: Record<string, unknown>) {
  const registries = [0, 1].map(() => new SampleRegistry({ admin: DSO, clock: systemClock() }));
  for (const registry of registries) {
    await registry.start();
    closing.push(() => registry.stop());
  }
  const upstreams = [{ name: "amulet", admin: DSO, urls: registries.map(({ url }) => url) }];
  const start = async () => {
    const gateway = await GatewayProcess.start({ ...keys, upstreams });
    closing.push(() => gateway.stop());
    await until(async () => (await gateway.status<Status>()).upstreams[0]!.nodes.every(({ state }) => state === "up"));
    return gateway;
  };
  const gateways = await Promise.all(Array.from({ length: replicas }, start));
  const load = gateways.map(
    ({ url }) =>
      new SteadyLoad({
        url,
        rate: RATE / replicas,
        request: (index) =>
          index % 4 === 0
            ? { method: "POST", path: "/registry/transfer-instruction/v1/00aa/choice-contexts/accept", body: "{}" }
            : { method: "GET", path: "/registry/metadata/v1/instruments?pageSize=5" },
      }),
  );
  /** Calls of clients; checks are others. */
  const callsAt = (node: number) => registries[node]!.calls.count("transfer_accept");
  return { gateways, load, callsAt, start, registries };
}

async function cordon({ operations }: GatewayProcess, state: "active" | "cordoned"): Promise<void> {
  const answer = await fetch(`${operations}/nodes`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ upstream: "amulet", node: 0, state, reason: "test" }),
  });
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining(state)]);
}

/** Both ways, under load: no request is lost, and the node gets no call from `BOUND` on. */
async function tellStory({ gateways, load, callsAt }: Awaited<ReturnType<typeof startAll>>): Promise<void> {
  await sleep(1_000);
  expect(callsAt(0)).toBeGreaterThan(0);
  await cordon(gateways[0]!, "cordoned");
  await sleep(BOUND);
  const then = [callsAt(0), callsAt(1)];
  await sleep(2_000);
  expect(callsAt(0)).toBe(then[0]);
  expect(callsAt(1)).toBeGreaterThan(then[1]! + RATE / 8);
  await cordon(gateways.at(-1)!, "active");
  await until(() => callsAt(0) > then[0]!);
  const reports = await Promise.all(load.map((each) => each.stop()));
  expect(reports.map(({ failures }) => failures)).toEqual(reports.map(() => ({})));
  expect(reports.reduce((sum, { sent }) => sum + sent, 0)).toBeGreaterThan(4 * RATE);
}

test("a cordon on one of two replicas under load loses no request, and the node gets no new call after 2 s", async () => {
  const server = await startRedis();
  closing.push(() => server.stop());
  const all = await startAll(2, { redis: { url: server.url } });
  await tellStory(all);
  await cordon(all.gateways[0]!, "cordoned");
  const late = await all.start();
  expect((await late.status<Status>()).inForce).toMatchObject([{ node: 0, state: "cordoned" }]);
});
