import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { LONGEST_HOLD, Victim } from "../../hostile/victim.ts";
import { INFO, LIST, PREFIX } from "../../support/endpoints.ts";
import { startRawServer } from "../../support/raw.ts";
import { partyOf, type Registry, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";
import { memoryOf } from "../../support/usage.ts";

/**
 * As many upstreams as there can be, of which nine hundred are dead: two thirds refuse connections, a third take them and say
 * nothing. One that lives is the victim's own.
 */
const [LIVING, REFUSING, SILENT] = [99, 600, 300];
const MIB = 2 ** 20;

let living: Registry[];
let victim: Victim;
let startedIn: number;

beforeAll(async () => {
  living = await Promise.all(Array.from({ length: LIVING }, (_none, at) => startRegistry(`r${at}`)));
  const silent = await startRawServer(() => undefined);
  const dead = (name: string, count: number, url: string): object[] =>
    Array.from({ length: count }, (_none, at) => ({
      name: `${name}${at}`,
      // Half of them have told nobody yet whose they are.
      ...(at % 2 === 0 && { admin: partyOf(`${name}${at}`) }),
      urls: [`${url}/${name}${at}`],
    }));
  const began = performance.now();
  victim = await Victim.start({
    upstreams: [...dead("gone", REFUSING, "http://127.0.0.1:1"), ...dead("silent", SILENT, silent), ...living],
  });
  startedIn = performance.now() - began;
});

test("the start takes seconds, and the living are up soon", async () => {
  expect(startedIn).toBeLessThan(15_000);
  const states = await until(async () => {
    const { upstreams } = (await victim.process.operations.status()) as {
      upstreams: { name: string; state: string }[];
    };
    const up = upstreams.filter(({ state }) => state === "up");
    return up.length === LIVING + 1 && upstreams;
  });
  expect(states).toHaveLength(LIVING + REFUSING + SILENT + 1);
});

test("hits of the living wait for none of the dead, whatever the operator looks at, and memory is flat", async () => {
  const { site, operations, child } = victim.process;
  for (const { name } of living) expect((await site.get(`${PREFIX}/${name}${INFO}`)).status).toBe(200);
  await victim.expectHolds(LONGEST_HOLD, () => pause(5_000));
  const before = memoryOf(child.pid);
  const took: Record<string, number> = {};
  for (const path of ["/status", "/metrics", "/config", "/readyz"]) {
    await victim.expectHolds(LONGEST_HOLD, async () => {
      const began = performance.now();
      expect((await operations.get(path)).status).toBe(200);
      took[path] = Math.round(performance.now() - began);
    });
  }
  await victim.expectHolds(LONGEST_HOLD, async () => {
    for (const { name } of living) expect((await site.get(`${PREFIX}/${name}${LIST}`)).status).toBe(200);
  });
  await pause(20_000);
  process.stdout.write(
    `1,000 upstreams: start ${Math.round(startedIn)} ms, ${Math.round(before / MIB)} MiB, ${JSON.stringify(took)} ms\n`,
  );
  expect(took["/status"]).toBeLessThan(2_000);
  expect(memoryOf(child.pid) - before).toBeLessThan(32 * MIB);
});

test("requests to the dead are answered by what is known of them, and the aggregate by what there is", async () => {
  const { site } = victim.process;
  const outcomes = new Set<string>();
  for (let at = 0; at < 40; at += 2) outcomes.add((await site.get(`${PREFIX}/gone${at}${INFO}`)).outcome);
  expect(outcomes).toEqual(new Set(["503 upstream_down"]));
  const [partly, unmatched] = await Promise.all([
    site.get("/catalog/v1/registries?partial=true"),
    site.get(`${PREFIX}/${partyOf("nobody")}${INFO}`),
  ]);
  expect(partly.status).toBe(200);
  expect(unmatched.outcome).toBe("503 admin_not_known_yet");
});
