import { connect } from "node:net";
import { Agent, request } from "undici";
import { afterEach, expect, test } from "vitest";
import { startGateway } from "../../support/gateway.ts";
import { ownError } from "../../support/own-error.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { until } from "../../support/until.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { SteadyLoad } from "../../support/steady-load.ts";
import { TcpBalancer } from "../../support/tcp-balancer.ts";

const registry = useSampleRegistries();
const processes: GatewayProcess[] = [];

afterEach(async () => {
  await Promise.all(processes.splice(0).map((each) => each.stop()));
});

async function gateway(keys: Record<string, unknown>): Promise<GatewayProcess> {
  const started = await GatewayProcess.start(keys);
  processes.push(started);
  return started;
}

const INFO = "/registry/metadata/v1/info";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

const readiness = (process: GatewayProcess) => fetch(`${process.operations}/readyz`).then(({ status }) => status);

test("after SIGTERM readiness falls first, then the gateway accepts for its grace, finishes what runs, and exits with 0", async () => {
  const amulet = await registry();
  const process = await gateway({
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    shutdown: { grace: "2s", timeout: "5s" },
  });
  const call = async () => {
    const answer = await request(`${process.url}${ACCEPT}`, { method: "POST", dispatcher: new Agent() });
    await answer.body.dump();
    return [answer.statusCode, answer.headers["connection"]];
  };
  expect((await call())[0]).toBe(200);
  const held = Promise.withResolvers<undefined>();
  amulet.calls.clear();
  amulet.script(() => held.promise);
  const begun = [call(), call(), call()];
  await amulet.calls.reached(3);
  process.signal("SIGTERM");
  await until(async () => (await readiness(process)) === 503);
  expect((await fetch(`${process.operations}/livez`)).status).toBe(200);
  const late = call();
  await amulet.calls.reached(4);
  held.resolve(undefined);
  expect(await Promise.all([...begun, late])).toEqual(Array.from({ length: 4 }, () => [200, "close"]));
  expect(await process.ended).toBe(0);
  expect(process.said("stopped")).toHaveLength(1);
  await expect(fetch(`${process.url}${INFO}`)).rejects.toThrow("fetch failed");
});

test("SIGINT has no grace: idle connections end at once, running requests are finished", async () => {
  const amulet = await registry();
  const process = await gateway({
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    shutdown: { grace: "1m", timeout: "10s" },
  });
  const agent = new Agent({ connections: 1 });
  await (await request(`${process.url}${INFO}`, { dispatcher: agent })).body.dump();
  const stopping = Promise.withResolvers<undefined>();
  amulet.script(() => stopping.promise);
  const running = request(`${process.url}${ACCEPT}`, { method: "POST", dispatcher: new Agent() });
  await until(() => amulet.calls.open === 1);
  process.signal("SIGINT");
  await until(() => process.said("stopping").length === 1);
  stopping.resolve(undefined);
  const answer = await running;
  expect(answer.statusCode).toBe(200);
  expect(answer.headers["connection"]).toBe("close");
  await answer.body.dump();
  expect(await process.ended).toBe(0);
  await agent.close();
});

test("what still runs when the time is over gets a 503 and no cut connection", async () => {
  const amulet = await registry();
  const started = await startGateway({
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    shutdown: { grace: "0s", timeout: "300ms" },
  });
  // The admin is proved, so that nothing but the calls is slow.
  await (await fetch(`${started.url}${INFO}`)).text();
  amulet.slow(8_000);
  const slow = [
    request(`${started.url}${ACCEPT}`, { method: "POST" }),
    request(`${started.url}/registry/metadata/v1/instruments/X`),
    request(`${started.url}/registry/drafts/v3/anything`),
  ];
  await until(() => amulet.calls.open === 3);
  const stopped = started.gateway.stop({ grace: true });
  for (const answer of await Promise.all(slow)) {
    expect(answer.statusCode).toBe(503);
    expect(answer.headers["retry-after"]).toBe("1");
    expect(answer.headers["connection"]).toBe("close");
    expect(answer.headers["access-control-allow-origin"]).toBe("*");
    expect(await answer.body.json()).toEqual(ownError(/the gateway is being/, { retryAfter: 1 }));
  }
  await stopped;
});

test("a connection that never sent a request does not hold the gateway up", async () => {
  const amulet = await registry();
  const started = await startGateway({
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    shutdown: { grace: "0s", timeout: "1m" },
  });
  const socket = connect(Number(new URL(started.url).port), "127.0.0.1");
  await new Promise((resolve) => {
    socket.once("connect", resolve);
  });
  socket.on("error", () => {});
  await started.gateway.stop({ grace: true });
  socket.destroy();
});

test.for([
  ["SIGTERM", "SIGINT", 1],
  ["SIGINT", "SIGTERM", 1],
  // npm passes on what a terminal, or who stops a group of processes, sent already.
  ["SIGINT", "SIGINT", 0],
  ["SIGTERM", "SIGTERM", 0],
] as const)("a %s and at once a %s: the process ends with %d", async ([first, second, code]) => {
  const amulet = await registry();
  const process = await gateway({
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    shutdown: { grace: code === 0 ? "0s" : "1m", timeout: "1m" },
  });
  const held = Promise.withResolvers<undefined>();
  amulet.script(() => held.promise);
  const running = fetch(`${process.url}${ACCEPT}`, { method: "POST" }).catch(() => undefined);
  await until(() => amulet.calls.open === 1);
  process.signal(first);
  await until(() => process.said("stopping").length === 1);
  process.signal(second);
  if (code === 0) held.resolve(undefined);
  expect(await process.ended).toBe(code);
  held.resolve(undefined);
  expect((await running)?.status).toBe(code === 0 ? 200 : undefined);
});

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
  const backendOf = (each: GatewayProcess) => ({
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
