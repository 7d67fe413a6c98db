import { expect, test } from "vitest";
import { parseExposition } from "../support/exposition.ts";
import { ownError } from "../support/own-error.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { UTILITY_ADMIN } from "../support/sample.ts";
import { ShiftedClock } from "../support/shifted-clock.ts";
import { useGateways } from "../support/gateways.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const PATHS = ["info", "instruments", "instruments?pageSize=5", "instruments/Amulet%2FUSD"];

test("a hundred concurrent cold GETs make one upstream call", async () => {
  const registry = await startRegistry({ latency: 100 });
  const gateway = await startGateway({ upstreams: [{ name: "amulet", urls: [registry.url] }] });
  const url = `${gateway.registrar("amulet")}/registry/metadata/v1/instruments?pageSize=5`;
  const answers = await Promise.all(Array.from({ length: 100 }, () => fetch(url)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set(await Promise.all(answers.map((answer) => answer.text()))).size).toBe(1);
  expect(registry.calls.count("instruments")).toBe(1);
});

test("while the registry is dead all cached metadata is served with its true age, and nothing after its window", async () => {
  const registry = await startRegistry();
  const clock = new ShiftedClock();
  const keys = {
    cache: { ttl: { info: "30s" }, staleWhileRevalidate: "0s", staleIfError: "10m" },
    upstreams: [{ name: "amulet", urls: [registry.url] }],
  };
  const gateway = await startGateway(keys, { clock });
  const ask = (path: string) => fetch(`${gateway.registrar("amulet")}/registry/metadata/v1/${path}`);
  const bodies = new Map<string, string>();
  for (const path of PATHS) bodies.set(path, await (await ask(path)).text());
  await registry.kill();

  let age = 0;
  for (const step of [60, 240, 320]) {
    clock.advance(step * 1_000);
    age += step;
    for (const path of PATHS) {
      const answer = await ask(path);
      expect([path, answer.status, await answer.text()]).toEqual([path, 200, bodies.get(path)]);
      // Besides the steps, some real time passes.
      expect(Number(answer.headers.get("age"))).toBeGreaterThanOrEqual(age);
      expect(Number(answer.headers.get("age"))).toBeLessThan(age + 15);
      expect(answer.headers.get("cache-status")).toMatch(/^registry-gateway;hit|;fwd=stale/);
      expect(answer.headers.get("cache-status")).toMatch(/;ttl=-\d+/);
    }
  }
  const series = parseExposition(await (await fetch(`${gateway.operations}/metrics`)).text());
  const windowsUsed = series.filter(({ name }) => name === "registry_gateway_cache_stale_window_used_ratio_bucket");
  for (const operation of ["info", "instrument"]) {
    const counts = windowsUsed.filter(({ labels }) => labels["operation"] === operation).map(({ value }) => value);
    // 0.25, 0.5, 0.8, 1, +Inf
    expect(counts).toEqual([1, 2, 2, 3, 3]);
  }
  clock.advance(40_000);
  for (const path of PATHS) {
    const answer = await ask(path);
    expect([502, 503, 504]).toContain(answer.status);
    const retryAfter = answer.headers.get("retry-after");
    expect(await answer.json()).toEqual(ownError(/./, retryAfter === null ? {} : { retryAfter: Number(retryAfter) }));
  }
});

test("what stands in for failures in a listing of several registries is counted as such", async () => {
  const [one, other] = [await startRegistry(), await startRegistry({ admin: UTILITY_ADMIN })];
  const clock = new ShiftedClock();
  const upstreams = [
    { name: "amulet", urls: [one.url] },
    { name: "bonds", urls: [other.url] },
  ];
  const gateway = await startGateway({ upstreams }, { clock });
  const list = async () => (await fetch(`${gateway.url}/registry/metadata/v1/instruments`)).status;
  expect(await list()).toBe(200);
  await Promise.all([one.kill(), other.kill()]);
  clock.advance(550_000);
  expect(await list()).toBe(200);
  const series = parseExposition(await (await fetch(`${gateway.operations}/metrics`)).text());
  const counted = series.filter(
    ({ name, labels }) =>
      name === "registry_gateway_cache_stale_window_used_ratio_bucket" && labels["operation"] === "instruments",
  );
  expect(counted.map(({ value }) => value)).toEqual([0, 0, 0, 1, 1]);
});

test("requests that meet an expired entry get it at once, while one refresh runs", async () => {
  const registry = await startRegistry();
  const clock = new ShiftedClock();
  const gateway = await startGateway({ upstreams: [{ name: "amulet", urls: [registry.url] }] }, { clock });
  const url = `${gateway.registrar("amulet")}/registry/metadata/v1/instruments?pageSize=5`;
  await (await fetch(url)).text();
  // The refresh can't be answered, so whoever waited for it would wait for ever.
  await registry.faults.set({ kind: "hang" });
  clock.advance(31_000);
  const answers = await Promise.all(Array.from({ length: 50 }, () => fetch(url)));
  for (const answer of answers) {
    expect(answer.status).toBe(200);
    expect(answer.headers.get("cache-status")).toContain("detail=stale-while-revalidate");
  }
  await expect.poll(() => registry.calls.open).toBe(1);
  expect(registry.calls.count("instruments")).toBe(2);
  // Ends the refresh, which the gateway would wait for.
  await registry.stop();
});
