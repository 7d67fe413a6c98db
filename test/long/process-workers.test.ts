import { Agent, request } from "undici";
import { afterEach, expect, test } from "vitest";
import { RealProcess } from "../support/real-process.ts";
import { SteadyLoad } from "../support/steady-load.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { until } from "../support/redis.ts";

interface Status {
  readonly workers: readonly { readonly id: number; readonly pid: number; readonly state: string }[];
}

const registry = useSampleRegistries();
let gateway: RealProcess | undefined;

afterEach(() => gateway?.dispose());

const INFO = "/registry/metadata/v1/info";
const PAGE = "/registry/metadata/v1/instruments?pageSize=7";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

async function start(keys: Record<string, unknown>, latency = 0) {
  const amulet = await registry({ latency });
  gateway = await RealProcess.start({
    cache: { ttl: { info: "1h", instruments: "1h" } },
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    shutdown: { grace: "1s", timeout: "10s" },
    ...keys,
  });
  return { amulet, gateway };
}

const workersOf = async (process: RealProcess) => (await process.status<Status>()).workers;

test("1,000 concurrent requests to a cold key over 4 workers cost one call", async () => {
  const { amulet, gateway } = await start({ workers: 4 });
  amulet.slow(1_500);
  const agent = new Agent({ connections: 1_000, pipelining: 1 });
  const answers = await Promise.all(
    Array.from({ length: 1_000 }, async () => {
      const { statusCode, body } = await request(gateway.url + PAGE, { dispatcher: agent });
      await body.dump();
      return statusCode;
    }),
  );
  await agent.close();
  expect(new Set(answers)).toEqual(new Set([200]));
  expect(amulet.calls.recent.filter(({ url }) => url === PAGE)).toHaveLength(1);
});

test("a worker killed under load is replaced within a second, only what it worked on fails, and no counter falls", async () => {
  const { gateway } = await start({ workers: 2 }, 10);
  const connections = 40;
  const rate = 1_000;
  const load = new SteadyLoad({
    url: gateway.url,
    rate,
    connections,
    request: (index) =>
      index % 10 === 0 ? { method: "POST", path: ACCEPT, body: "{}" } : { method: "GET", path: INFO },
  });
  await until(() => load.answered > rate * 3);
  const replacedIn: number[] = [];
  const counts: number[] = [];
  for (let kill = 1; kill <= 3; kill += 1) {
    const [victim] = await workersOf(gateway);
    const failed = load.failed;
    const answered = load.answered;
    const killedAt = Date.now();
    process.kill(victim!.pid, "SIGKILL");
    await until(async () => {
      counts.push(await gateway.metric("registry_gateway_requests_total"));
      const now = await workersOf(gateway);
      return now.length === 2 && now.every(({ id, state }) => id !== victim!.id && state === "listening");
    });
    await until(() => gateway.said("worker replaced").length === kill);
    // As the gateway says: to ask for the metrics takes time as well.
    replacedIn.push(Date.parse(String(gateway.said("worker replaced").at(-1)!["time"])) - killedAt);
    // One request on each connection to that worker at most.
    expect(load.failed - failed).toBeLessThanOrEqual(connections);
    await until(() => load.answered > answered + rate * 3);
  }
  const report = await load.stop();
  console.log(`replaced in ${replacedIn.join(", ")} ms; ${JSON.stringify(report)}`);
  expect(counts).toEqual(counts.toSorted((a, b) => a - b));
  expect(Math.max(...replacedIn)).toBeLessThan(3_000);
});

test("a worker that hangs is ended and replaced, and a purge does not wait for it", async () => {
  const { gateway } = await start({ workers: 2 });
  const [victim] = await workersOf(gateway);
  process.kill(victim!.pid, "SIGSTOP");
  const askedAt = performance.now();
  const purge = await fetch(`${gateway.operations}/purge`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  expect(purge.status).toBe(200);
  expect(performance.now() - askedAt).toBeLessThan(8_000);
  await until(async () => {
    const now = await workersOf(gateway);
    return now.length === 2 && now.every(({ id, state }) => id !== victim!.id && state === "listening");
  }, 30_000);
  expect(await gateway.metric("registry_gateway_worker_ends_total", 'reason="hung"')).toBe(1);
});

test("a silent worker is ended though nobody asks anything of it", async () => {
  const { gateway } = await start({ workers: 2 });
  const [victim] = await workersOf(gateway);
  process.kill(victim!.pid, "SIGSTOP");
  await until(() => gateway.said("worker does not answer and is ended").length === 1, 30_000);
  await until(() => gateway.said("worker replaced").length === 1, 30_000);
});

test("SIGTERM drains all workers without a lost request, while another gateway takes over", async () => {
  // A grace that outlasts a stall of this process: it has to notice in time that nothing more may be sent.
  const { amulet, gateway } = await start({ workers: 2, shutdown: { grace: "4s", timeout: "10s" } }, 20);
  const connections = 20;
  const load = new SteadyLoad({
    url: gateway.url,
    rate: 300,
    connections,
    request: (index) =>
      index % 2 === 0 ? { method: "POST", path: ACCEPT, body: "{}" } : { method: "GET", path: INFO },
  });
  await until(() => load.answered > 300);
  gateway.signal("SIGTERM");
  await until(async () => (await fetch(`${gateway.operations}/readyz`)).status === 503);
  // A balancer sends no more from here on; what is under way is finished.
  const report = await load.stop();
  expect(await gateway.ended).toBe(0);
  expect(report.failures).toEqual({});
  expect(amulet.calls.open).toBe(0);
});
