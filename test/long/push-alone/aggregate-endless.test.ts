import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { get, type Got, listForEver, useAggregates } from "../../support/aggregate-registries.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";

const { startAggregate, startRegistries } = useAggregates();

const LISTING = "/registry/metadata/v1/instruments";
const REGISTRIES = "/catalog/v1/registries";
const INSTRUMENTS = "/catalog/v1/instruments";

const MIB = 1024 * 1024;

/** How long the catalogue is used. */
const FOR = 20_000;

/** With three registries that list 4 MiB a page for ever; without a bound one of them took 2.5 GB in that time. */
const MAX_RESIDENT = 700 * MIB;

/** The first to ask waits for the walks no longer. */
const FIRST_ANSWER = 8_000;

const running: GatewayProcess[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((gateway) => gateway.stop()));
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
  const gateway = await GatewayProcess.start({ upstreams });
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

/** Waits until the catalogue has been read. */
async function catalogued(url: string): Promise<Got> {
  const counts = async () => {
    const { json } = await get(url + REGISTRIES);
    return (json.registries as { instrumentCount: number | null }[]).map(({ instrumentCount }) => instrumentCount);
  };
  await expect.poll(counts).not.toContain(null);
  return get(url + REGISTRIES);
}

describe("a registry that lists for ever", () => {
  test("is read up to a bound, and the catalogue says that it is not whole", async () => {
    const { url, registries } = await startAggregate({ endless: {}, amulet: {} });
    listForEver(registries.endless!, MIB);
    const listed = await catalogued(url);
    expect(listed.headers.get("x-registry-partial")).toBe("endless");
    expect(listed.json.registries).toMatchObject([{ instrumentCount: 32 }, { instrumentCount: 30 }]);
    const found = await get(`${url}${INSTRUMENTS}?query=instrument&pageSize=5`);
    expect([found.status, found.headers.get("x-registry-partial")]).toEqual([200, "endless"]);
    expect(found.headers.get("cache-control")).toBe("no-store");
    expect(registries.endless!.calls.count("instruments")).toBe(32);

    // A page of what is found costs its size, and no instrument is lost.
    const seen: string[] = [];
    for (let pageToken = ""; seen.length < 100;) {
      const { json } = await get(`${url}${INSTRUMENTS}?pageSize=1000${pageToken}`);
      const ids = (json.instruments as { id: string }[]).map(({ id }) => id);
      expect(ids.length).toBeGreaterThan(0);
      seen.push(...ids);
      if (json.nextPageToken === undefined) break;
      pageToken = `&pageToken=${json.nextPageToken as string}`;
    }
    expect(new Set(seen).size).toBe(62);
    expect(seen).toHaveLength(62);
  });

  test("costs a page of the merged listing its size, and no instrument", async () => {
    const { url, registries } = await startAggregate({ endless: {}, amulet: {} });
    listForEver(registries.endless!, MIB);
    const seen: string[] = [];
    let pageToken = "";
    for (let page = 0; page < 2; page++) {
      const { status, json } = await get(`${url}${LISTING}?pageSize=1000${pageToken}`);
      expect(status).toBe(200);
      const ids = (json.instruments as { id: string }[]).map(({ id }) => id);
      expect(ids.length).toBeGreaterThan(10);
      expect(ids.length).toBeLessThan(17);
      seen.push(...ids);
      pageToken = `&pageToken=${json.nextPageToken as string}`;
    }
    expect(seen).toEqual(seen.map((_id, at) => `ENDLESS-${at}`));
  });

  test("gets further with each page though one of its own costs more than a page may", async () => {
    const { url, registries } = await startAggregate(
      { endless: {}, amulet: {} },
      { limits: { responseBody: "32MiB" }, cache: { memory: { maxObject: "1MiB" } } },
    );
    listForEver(registries.endless!, 17 * MIB);
    const seen: string[] = [];
    for (let page = 0, pageToken = ""; page < 2; page++) {
      const { json } = await get(`${url}${LISTING}?pageSize=1000${pageToken}`);
      seen.push(...(json.instruments as { id: string }[]).map(({ id }) => id));
      pageToken = `&pageToken=${json.nextPageToken as string}`;
    }
    expect(seen).toEqual(["ENDLESS-0", "ENDLESS-1"]);
  });

  test("is not warmed up for ever", async () => {
    const aggregate = await startAggregate({ endless: {} }, { cache: { memory: { maxObject: "1KiB" } } });
    const registry = aggregate.registries.endless!;
    listForEver(registry, MIB);
    const config = structuredClone(aggregate.gateway.config);
    const upstreams = config.upstreams.map((each) => ({ ...each, cache: { ...each.cache, warmUp: true } }));
    await aggregate.gateway.reload({ ...config, upstreams });
    await expect.poll(() => registry.calls.count("instruments")).toBe(32);
  });
});
