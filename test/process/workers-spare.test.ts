import { Agent, request } from "undici";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { SampleRegistry } from "../../src/sandbox/registry.ts";
import { DSO } from "../sandbox/sample.ts";
import { until } from "../support/redis.ts";
import { childrenOf, isRunning } from "./child-processes.ts";
import { RealProcess } from "./real-process.ts";

// Several processes have to start on a machine that may be busy with other tests.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

interface Status {
  readonly workers: readonly { readonly id: number; readonly pid: number; readonly state: string }[];
}

const INFO = "/registry/metadata/v1/info";

const amulet = new SampleRegistry({ admin: DSO, clock: systemClock() });
let gateway: RealProcess;

/** What the configuration is made of: one upstream of this name. */
function keys(name: string, more: Record<string, unknown> = {}) {
  return { workers: 2, upstreams: [{ name, admin: DSO, urls: [amulet.url] }], ...more };
}

beforeAll(async () => {
  await amulet.start();
  gateway = await RealProcess.start(keys("amulet"));
});

afterAll(async () => {
  await gateway.dispose();
  await amulet.stop();
});

/** The one that is none of those that answer, as soon as it is there. */
async function findSpare(): Promise<number> {
  let spare: number | undefined;
  await until(async () => {
    const working = new Set((await workers()).map(({ pid }) => pid));
    spare = childrenOf(gateway.pid).find((pid) => !working.has(pid));
    return spare !== undefined;
  }, 30_000);
  return spare!;
}

const workers = async () => (await gateway.status<Status>()).workers;

/** One request on a connection of its own: the next one goes to the next worker. */
async function once(alias: string): Promise<number> {
  const agent = new Agent({ headersTimeout: 10_000 });
  const url = `${gateway.url}/api/token-standard/v0/registrars/${alias}${INFO}`;
  const { statusCode, body } = await request(url, { dispatcher: agent });
  await body.dump();
  await agent.close();
  return statusCode;
}

it("a spare worker is given no connection, and is no worker", async () => {
  const spare = await findSpare();
  // Whoever waited for it would wait for ever.
  process.kill(spare, "SIGSTOP");
  for (let i = 0; i < 12; i += 1) expect(await once("amulet")).toBe(200);
  expect(await gateway.metric("registry_gateway_requests_total")).toBe(12);
  expect(await gateway.metric("registry_gateway_workers")).toBe(2);
  expect(await workers()).toHaveLength(2);
  const purge = await fetch(`${gateway.operations}/purge`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  expect(purge.status).toBe(200);
  expect(isRunning(spare)).toBe(true);

  // It ends unseen, and another one follows.
  process.kill(spare, "SIGKILL");
  await until(() => !isRunning(spare));
  await findSpare();
  expect(await gateway.metric("registry_gateway_worker_ends_total")).toBe(0);
  expect(gateway.said("worker replaced")).toEqual([]);
});

it("workers killed one after the other are each replaced by a spare one, with the configuration in use", async () => {
  const share = await gateway.metric("registry_gateway_cache_max_bytes");
  // The spare one was started before, and hears of none of these.
  await findSpare();
  gateway.write(keys("renamed"));
  gateway.signal("SIGHUP");
  await until(() => gateway.said("configuration reloaded").length === 1);
  gateway.write(keys("refused", { limits: { requestBody: "nonsense" } }));
  gateway.signal("SIGHUP");
  await until(() => gateway.said("configuration refused: the one in use stays").length === 1);

  for (let kill = 1; kill <= 3; kill += 1) {
    const spare = await findSpare();
    const victim = (await workers())[0]!;
    const killedAt = performance.now();
    process.kill(victim.pid, "SIGKILL");
    await until(() => gateway.said("worker replaced").length === kill, 30_000);
    // Far from what it takes: the machine may be busy with other tests.
    expect(performance.now() - killedAt).toBeLessThan(5_000);
    const now = await workers();
    expect(now.map(({ pid }) => pid)).toContain(spare);
    expect(now.map(({ state }) => state)).toEqual(["listening", "listening"]);
    expect(now.map(({ id }) => id)).not.toContain(victim.id);
    for (let i = 0; i < 4; i += 1) expect(await once("renamed")).toBe(200);
  }
  expect(await gateway.metric("registry_gateway_workers")).toBe(2);
  expect(await gateway.metric("registry_gateway_worker_ends_total")).toBe(3);
  expect(await gateway.metric("registry_gateway_cache_max_bytes")).toBe(share);
});

it("a spare worker ends with a primary that is killed", async () => {
  await findSpare();
  const all = childrenOf(gateway.pid);
  expect(all).toHaveLength(3);
  gateway.signal("SIGKILL");
  await gateway.ended;
  await until(() => !all.some(isRunning), 30_000);
});
