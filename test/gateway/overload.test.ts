import { setImmediate as turn } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { createGateway, type Gateway } from "../../src/gateway/gateway.ts";
import { measureLoop, Overload } from "../../src/gateway/overload.ts";
import { createLogger } from "../../src/observe/log.ts";
import { testConfig } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { ownError } from "../support/own-error.ts";
import { until } from "../support/until.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";

const registry = useSampleRegistries();

describe("shedding", () => {
  function follow(delays: readonly number[], utilization = 1): boolean[] {
    const clock = new ManualClock();
    let delay = 0;
    const load = () => ({ delay, utilization });
    const overload = new Overload({ clock, load, onChange: () => {}, onShed: () => {} });
    overload.start();
    return delays.map((each) => {
      delay = each;
      clock.advance(500);
      return overload.isShedding;
    });
  }
  const late = [600, 600, 600, 600];

  test("never begins while the loop is on time", () => {
    expect(follow([0, 5, 60, 499, 40, 150, 499, 499, 499])).not.toContain(true);
  });

  test("does not begin with a pause", () => {
    expect(follow([0, 900, 900, 900, 3, 900, 3])).not.toContain(true);
  });

  test("begins when the loop stays late for two seconds", () => {
    expect(follow(late)).toEqual([false, false, false, true]);
  });

  test("does not begin where the loop is late and has little to do: the machine is busy with something else", () => {
    expect(follow([...late, ...late], 0.5)).not.toContain(true);
  });

  test("ends only when the loop was on time for two seconds, and begins again as it began", () => {
    const after = [20, 20, 20, 320, 20, 20, 20, 20];
    expect(follow([...late, ...after, ...late]).slice(4)).toEqual([
      // Until it was on time for long enough.
      ...Array.from({ length: 7 }, () => true),
      ...Array.from({ length: 4 }, () => false),
      true,
    ]);
  });
});

describe("a gateway that has too much to do", () => {
  let gateway: Gateway | undefined;
  afterEach(() => gateway?.stop({ grace: false }));

  test("refuses misses and calls, and answers hits, stale entries and operations", async () => {
    const amulet = await registry();
    const lines: Record<string, unknown>[] = [];
    let delay = 0;
    const clock = systemClock();
    let slept = 0;
    gateway = await createGateway({
      config: testConfig({
        upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
        cache: { ttl: { info: "10m", instruments: "30s" }, staleWhileRevalidate: "0s", staleIfError: "1h" },
      }),
      log: createLogger("info", { destination: { write: (line: string) => void lines.push(JSON.parse(line)) } }),
      // Nobody wants to wait for seconds of overload.
      clock: { ...clock, now: () => clock.now() + slept, after: (wait, fire) => clock.after(wait / 5, fire) },
      random: Math.random,
      version: "0.0.0-test",
      loop: () => ({ delay, utilization: 1 }),
    });
    const { publicPort, operationsPort } = await gateway.start();
    const url = `http://127.0.0.1:${publicPort}/registry`;
    const get = (path: string, headers: Record<string, string> = {}) => fetch(`${url}${path}`, { headers });
    const post = () => fetch(`${url}/transfer-instruction/v1/00aa/choice-contexts/accept`, { method: "POST" });
    for (const path of ["/metadata/v1/info", "/metadata/v1/instruments"]) expect((await get(path)).status).toBe(200);
    expect((await post()).status).toBe(200);
    const calls = amulet.calls.total;
    slept = 60_000;

    delay = 600;
    await until(() => lines.some(({ msg }) => msg === "too much to do: misses and calls are refused"));

    expect((await get("/metadata/v1/info")).headers.get("cache-status")).toContain("hit");
    // Not the shortest way through the gateway, but a hit all the same.
    expect((await get("/metadata/v1/info", { "x-instrument-admin": amulet.admin })).status).toBe(200);
    const stale = await get("/metadata/v1/instruments");
    expect(stale.status).toBe(200);
    expect(stale.headers.get("cache-status")).toContain("stale-if-error");
    for (const refused of [await get("/metadata/v1/instruments/Unknown"), await post(), await get("/drafts/v9/x")]) {
      expect(refused.status).toBe(503);
      expect(refused.headers.get("retry-after")).toBe("3");
      expect(refused.headers.get("proxy-status")).toBe("registry-gateway;error=connection_limit_reached");
      expect(await refused.json()).toEqual(ownError(/./, { retryAfter: 3 }));
    }
    expect(amulet.calls.total).toBe(calls);
    const operations = `http://127.0.0.1:${operationsPort}`;
    expect((await fetch(`${operations}/readyz`)).status).toBe(200);
    const metrics = await (await fetch(`${operations}/metrics`)).text();
    expect(metrics).toContain("registry_gateway_shedding 1\n");
    expect(metrics).toContain("registry_gateway_event_loop_delay_seconds 0.6\n");
    expect(metrics).toContain('registry_gateway_shed_requests_total{kind="call"} 2\n');

    delay = 0;
    await until(() => lines.some(({ msg }) => msg === "misses and calls are answered again"));
    expect((await post()).status).toBe(200);
  });
});

test("a loop that is kept busy is measured as late, an idle one is not", async () => {
  const load = measureLoop();
  await new Promise((resolve) => {
    setTimeout(resolve, 100);
  });
  load();
  for (let i = 0; i < 4; i += 1) {
    const end = performance.now() + 150;
    while (performance.now() < end);
    await turn();
  }
  const { delay, utilization } = load();
  expect(delay).toBeGreaterThan(100);
  expect(utilization).toBeGreaterThan(0.9);
});
