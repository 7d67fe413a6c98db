import { afterEach, expect, test } from "vitest";
import { RealProcess } from "../support/real-process.ts";
import { SteadyLoad } from "../support/steady-load.ts";
import { TcpBalancer } from "../support/tcp-balancer.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { until } from "../support/redis.ts";

const registry = useSampleRegistries();
const processes: RealProcess[] = [];

afterEach(async () => {
  await Promise.all(processes.splice(0).map((each) => each.dispose()));
});

async function gateway(keys: Record<string, unknown>): Promise<RealProcess> {
  const started = await RealProcess.start(keys);
  processes.push(started);
  return started;
}

const INFO = "/registry/metadata/v1/info";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

/** One hit, one call that is passed on, in turns. */
function mixed(index: number) {
  return index % 2 === 0
    ? ({ method: "GET", path: INFO } as const)
    : ({ method: "POST", path: ACCEPT, body: "{}" } as const);
}

test("three processes behind a balancer are replaced one after the other without a failed request", async () => {
  const amulet = await registry({ latency: 10 });
  const keys = {
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    shutdown: { grace: "2s", timeout: "5s" },
  };
  const backendOf = (each: RealProcess) => ({
    process: each,
    port: Number(new URL(each.url).port),
    probe: `${each.operations}/readyz`,
  });
  let backends = (await Promise.all([gateway(keys), gateway(keys), gateway(keys)])).map(backendOf);
  const balancer = new TcpBalancer(backends);
  await balancer.start();
  const load = new SteadyLoad({ url: balancer.url, rate: 300, request: mixed });
  await until(() => load.answered > 50);
  for (const old of backends) {
    const fresh = backendOf(await gateway(keys));
    backends = backends.concat(fresh);
    balancer.use(backends);
    await until(() => balancer.isHealthy(fresh));
    old.process.signal("SIGTERM");
    expect(await old.process.ended).toBe(0);
    backends = backends.filter((each) => each !== old);
    balancer.use(backends);
  }
  const report = await load.stop();
  balancer.stop();
  expect(report.failures).toEqual({});
  expect(report.sent).toBeGreaterThan(200);
});
