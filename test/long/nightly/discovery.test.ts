import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { cpuTime } from "../../bench/cpu-time.ts";
import { discoveryOf, listOf, partyOf, usePublishers } from "../../support/discovery.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { SampleRegistry } from "../../support/sample-registry.ts";
import { until } from "../../support/until.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";

const REGISTRIES = 200;
const REQUESTS = 10_000;
/** At least so many changes of the list meanwhile. */
const TURNS = 4;

const startPublisher = usePublishers();
const folder = useTemporaryFolder();

test("200 registries are found within 3 s, and 10,000 requests go nowhere wrong while the list changes every second", async () => {
  const clock = systemClock();
  const registries = Array.from(
    { length: REGISTRIES },
    (_, at) => new SampleRegistry({ admin: partyOf(`registry-${at}`), clock, instruments: 2 }),
  );
  await Promise.all(registries.map((registry) => registry.start()));
  const whole = Object.fromEntries(registries.map(({ admin, url }) => [admin, url]));
  const list = await startPublisher(listOf(whole));
  const startedAt = performance.now();
  const gateway = await GatewayProcess.start({
    // Each request reaches its registry.
    cache: { ttl: { info: "0s" } },
    discovery: { every: "1s", sources: [{ url: list.url }], pinFile: join(folder(), "pins.json"), allowPrivate: true },
  });
  try {
    await until(async () => (await fetch(`${gateway.operations}/readyz`)).status === 200);
    const ready = performance.now() - startedAt;
    const busyUntilReady = cpuTime(gateway.pid) / 1e9;
    await until(
      async () =>
        (await discoveryOf(gateway)).registries.filter(({ state }) => state === "pinned").length === REGISTRIES,
    );
    const all = performance.now() - startedAt;
    const busyUntilAll = cpuTime(gateway.pid) / 1e9;
    console.log(
      `ready after ${Math.round(ready)} ms (${busyUntilReady.toFixed(2)} s of CPU), all after ${Math.round(all)} ms (${busyUntilAll.toFixed(2)} s)`,
    );
    // What it takes on a machine that does nothing else: one thread waits for nothing but itself.
    expect(busyUntilReady).toBeLessThan(3);
    expect(ready).toBeLessThan(3_000);
    expect(busyUntilAll).toBeLessThan(4);
    // Every other second a third is gone, and another third has the URL of its neighbour, which is another registry.
    let turn = 0;
    const timer = setInterval(() => {
      turn += 1;
      const changed = registries.flatMap(({ admin, url }, at) => {
        if ((at + turn) % 3 === 0) return [];
        return [[admin, (at + turn) % 3 === 1 ? registries[(at + 1) % REGISTRIES]!.url : url]];
      });
      list.publish(listOf(turn % 2 === 0 ? whole : (Object.fromEntries(changed) as Record<string, string>)));
    }, 1_000);
    const outcomes = new Map<string, number>();
    let sent = 0;
    const isEnough = () => sent >= REQUESTS && turn >= TURNS;
    const work = async (): Promise<void> => {
      while (!isEnough()) {
        const { admin } = registries[sent++ % REGISTRIES]!;
        const base = `${gateway.url}/api/token-standard/v0/registrars/${encodeURIComponent(admin)}`;
        const answer = await fetch(`${base}/registry/metadata/v1/info`);
        const { adminId } = (await answer.json()) as { adminId?: string };
        const outcome = adminId === admin ? "right" : adminId === undefined ? String(answer.status) : "wrong";
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: 16 }, work));
    clearInterval(timer);
    expect(Object.fromEntries(outcomes)).toEqual({ right: sent });
    // What was listed at another URL is pinned where it was found first.
    const { registries: found } = await discoveryOf(gateway);
    expect(found.every(({ admin, urls }) => urls.length === 1 && urls[0] === whole[admin])).toBe(true);
  } finally {
    await gateway.stop();
    await Promise.all(registries.map((registry) => registry.stop()));
  }
}, 180_000);
