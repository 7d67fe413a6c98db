import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { get, listForEver, useAggregates } from "../support/aggregate-registries.ts";
import { RealProcess } from "../support/real-process.ts";

const { startRegistries } = useAggregates();

const MIB = 1024 * 1024;

/** How long the catalogue is used. */
const FOR = 20_000;

/** With three registries that list 4 MiB a page for ever; without a bound one of them took 2.5 GB in that time. */
const MAX_RESIDENT = 700 * MIB;

/** The first to ask waits for the walks no longer. */
const FIRST_ANSWER = 8_000;

const running: RealProcess[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((gateway) => gateway.dispose()));
});

/** The most memory that a process ever had, bytes. */
function peakOf(pid: number): number {
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))!;
  return Number(kibibytes) * 1024;
}

test("registries that list for ever cost bounded memory and time, and the catalogue of the others goes on", async () => {
  const registries = await startRegistries({ amulet: {}, one: {}, two: {}, three: {} });
  for (const name of ["one", "two", "three"]) listForEver(registries[name]!, 4 * MIB);
  const upstreams = Object.entries(registries).map(([name, { admin, url }]) => ({ name, admin, urls: [url] }));
  const gateway = await RealProcess.start({ upstreams });
  running.push(gateway);

  const began = performance.now();
  const took: number[] = [];
  let partial: string | null = null;
  while (performance.now() - began < FOR) {
    const asked = performance.now();
    const { status, headers } = await get(`${gateway.url}/catalog/v1/instruments?query=amulet&pageSize=5`);
    took.push(performance.now() - asked);
    expect(status).toBe(200);
    partial = headers.get("x-registry-partial");
    await sleep(200);
  }
  const peak = peakOf(gateway.pid);
  const calls = ["one", "two", "three"].map((name) => registries[name]!.calls.count("instruments"));
  console.log(
    `peak ${Math.round(peak / MIB)} MiB, calls ${calls.join(", ")}, first answer ${Math.round(took[0]!)} ms, slowest ` +
      `later one ${Math.round(Math.max(...took.slice(1)))} ms`,
  );
  expect(partial).toBe("one, two, three");
  expect(peak).toBeLessThan(MAX_RESIDENT);
  expect(took[0]).toBeLessThan(FIRST_ANSWER);
  const { json } = await get(`${gateway.url}/catalog/v1/instruments?query=amulet&pageSize=5`);
  expect(json.instruments).toHaveLength(5);
});
