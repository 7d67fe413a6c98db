import { Agent, request } from "undici";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { HistoryReport } from "../../src/observe/history.ts";
import type { CacheAnswer } from "../../src/operations/answers.ts";
import type { ConfigReport } from "../../src/operations/config-report.ts";
import type { RequestsReport } from "../../src/observe/request-log.ts";
import { SampleRegistry } from "../../src/sandbox/registry.ts";
import { measureLoopTime } from "../support/loop-time.ts";
import { DSO, UTILITY_ADMIN } from "../support/sample.ts";
import { until } from "../support/redis.ts";
import { childrenOf, isRunning } from "../support/child-processes.ts";
import { RealProcess } from "../support/real-process.ts";
import { SteadyLoad } from "../support/steady-load.ts";

// Several processes have to start on a machine that may be busy with other tests.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

interface Status {
  readonly upstreams: readonly { readonly name: string; readonly state: string; readonly admin: string }[];
  readonly workers: readonly { readonly id: number; readonly pid: number; readonly state: string }[];
}

const INFO = "/registry/metadata/v1/info";
const INSTRUMENTS = "/registry/metadata/v1/instruments";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

const amulet = new SampleRegistry({ admin: DSO, clock: systemClock() });
const bonds = new SampleRegistry({ admin: UTILITY_ADMIN, clock: systemClock() });
const funds = new SampleRegistry({ admin: `funds::1220${"ff".repeat(32)}`, clock: systemClock() });
let gateway: RealProcess;

function keys(more: Record<string, unknown> = {}) {
  return {
    workers: 2,
    shutdown: { grace: "2s", timeout: "5s" },
    cache: { ttl: { info: "1h", instruments: "1h", instrument: "1h", notFound: "1h" } },
    upstreams: [
      { name: "amulet", admin: DSO, urls: [amulet.url] },
      { name: "bonds", urls: [bonds.url], rateLimit: { requests: 20, per: "10m", maxWait: "0s" } },
      { name: "funds", admin: funds.admin, urls: [funds.url], cache: { ttl: { info: "0s" } } },
    ],
    ...more,
  };
}

beforeAll(async () => {
  await Promise.all([amulet.start(), bonds.start(), funds.start()]);
  gateway = await RealProcess.start(keys());
});

afterAll(async () => {
  await gateway.dispose();
  await Promise.all([amulet.stop(), bonds.stop(), funds.stop()]);
});

const at = (alias: string, path: string) => `${gateway.url}/api/token-standard/v0/registrars/${alias}${path}`;

/** One request on a connection of its own, which may be any worker's. */
async function once(url: string, method: "GET" | "POST" = "GET") {
  const agent = new Agent();
  const { statusCode, headers, body } = await request(url, { dispatcher: agent, method });
  await body.dump();
  await agent.close();
  return { status: statusCode, cacheStatus: String(headers["cache-status"]) };
}

const workers = async () => (await gateway.status<Status>()).workers;

/** What the operations listener shows at `path`. */
async function shown<T>(path: string): Promise<T> {
  const answer = await fetch(gateway.operations + path);
  expect([answer.status, answer.headers.get("content-type")]).toEqual([
    200,
    expect.stringMatching(/^application\/json/),
  ]);
  return (await answer.json()) as T;
}

/** How many requests of the last hour were misses. */
async function missed(): Promise<number> {
  const { requests } = await shown<HistoryReport>("/history");
  return (requests["miss"] ?? []).reduce<number>((sum, count) => sum + (count ?? 0), 0);
}

test("the latest requests of both workers are told", async () => {
  for (let i = 0; i < 20; i++) await once(at("amulet", `${INSTRUMENTS}/none-${i}`));
  const told = (since = "") => shown<RequestsReport>(`/requests?upstream=amulet${since}`);
  await until(async () => (await told()).requests.length === 20);
  await until(() => gateway.said("request").length === 20);
  expect(new Set(gateway.said("request").map(({ worker }) => worker)).size).toBe(2);
  const since = `&since=${(await told()).cursor}`;
  expect((await told(since)).requests).toEqual([]);
  await once(at("amulet", `${INSTRUMENTS}/none-20`));
  await until(async () => (await told(since)).requests.length === 1);
});

test("what all workers have in memory is told as one", async () => {
  const report = await shown<CacheAnswer>("/cache?upstream=amulet");
  expect(report).toMatchObject({ behind: "primary", selected: { entries: 21 } });
  const notFound = report.groups.find(({ kind }) => kind === "notFound");
  expect(notFound).toMatchObject({ upstream: "amulet", entries: 21 });
});

test("the last hour of both workers is told", async () => {
  await until(async () => (await missed()) === 21);
  expect((await shown<HistoryReport>("/history")).residentBytes.at(-1)).toBeGreaterThan(50_000_000);
});

test("many concurrent requests to a cold key over all workers cost one call", async () => {
  amulet.slow(500);
  const page = `${INSTRUMENTS}?pageSize=7`;
  const answers = await Promise.all(Array.from({ length: 100 }, () => once(at("amulet", page))));
  amulet.slow(0);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(amulet.calls.recent.filter(({ url }) => url === page)).toHaveLength(1);
});

test("what one worker fetched, the others have", async () => {
  const before = amulet.calls.count("info");
  for (let i = 0; i < 6; i += 1) expect((await once(at("amulet", INFO))).status).toBe(200);
  expect(amulet.calls.count("info") - before).toBe(1);
});

test("metrics are added up over all workers", async () => {
  const count = () => gateway.metric("registry_gateway_requests_total");
  const before = await count();
  for (let i = 0; i < 10; i += 1) await once(at("amulet", INFO));
  expect((await count()) - before).toBe(10);
  expect(await gateway.metric("registry_gateway_workers")).toBe(2);
  expect(await gateway.metric("registry_gateway_cache_max_bytes")).toBeGreaterThan(64 * 1024 * 1024 - 10);
  expect(await gateway.metric("registry_gateway_config_last_reload_successful")).toBe(1);
});

test("a purge has effect in every worker when it is answered, and explain speaks for all", async () => {
  const url = at("amulet", INFO);
  const explain = async () => {
    const path = new URL(url).pathname;
    const response = await fetch(`${gateway.operations}/explain?path=${encodeURIComponent(path)}`);
    const { explanation } = (await response.json()) as {
      explanation: { entries: { worker: number; purged: boolean }[] };
    };
    return explanation.entries;
  };
  // Asked until both workers have it.
  await until(async () => {
    await once(url);
    return new Set((await explain()).map(({ worker }) => worker)).size === 2;
  });

  const purged = await fetch(`${gateway.operations}/purge`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ upstream: "amulet", endpoint: "info" }),
  });
  expect(await purged.json()).toEqual({ purged: { upstream: "amulet", endpoint: "info" }, scope: "replica" });
  expect((await explain()).every((entry) => entry.purged)).toBe(true);

  const before = amulet.calls.count("info");
  const answers = [await once(url), await once(url), await once(url)];
  expect(answers[0]!.cacheStatus).toContain("fwd=uri-miss");
  expect(answers[1]!.cacheStatus).toContain("hit");
  expect(amulet.calls.count("info") - before).toBe(1);
  const refused = await fetch(`${gateway.operations}/purge`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ upstream: "nobody" }),
  });
  expect(refused.status).toBe(404);
});

test("workers share one budget of calls, their checks included", async () => {
  const statuses: number[] = [];
  for (let i = 0; i < 30; i += 1) statuses.push((await once(at("bonds", ACCEPT), "POST")).status);
  expect(statuses).toContain(429);
  // A worker that hears of its grant too late, on a busy machine, rather makes no call.
  expect(bonds.calls.total).toBeLessThanOrEqual(20);
  expect(bonds.calls.total).toBeGreaterThan(15);
});

test("a registry that is found by one worker to be another one is used by no worker within 2 s", async () => {
  const draft = () => once(at("funds", "/registry/drafts/v1/x"), "POST");
  for (let i = 0; i < 4; i += 1) expect((await draft()).status).toBeLessThan(500);
  await funds.faults.set({ kind: "wrong-admin", admin: UTILITY_ADMIN, operations: ["info"] });
  expect((await once(at("funds", INFO))).status).toBe(502);
  const took = measureLoopTime();
  await until(async () => {
    const answers = [await draft(), await draft(), await draft(), await draft()];
    return answers.every(({ status }) => status === 502);
  });
  expect(took()).toBeLessThan(2_000);
});

test("what the last reload changed is told", async () => {
  expect((await shown<ConfigReport>("/config")).lastReload).toBeNull();
  gateway.write(keys({ log: { level: "debug" }, limits: { uri: "4KiB", requestBody: "2MiB" } }));
  gateway.signal("SIGHUP");
  await until(async () => (await shown<ConfigReport>("/config")).lastReload !== null);
  const { lastReload, config } = await shown<ConfigReport>("/config");
  expect(lastReload).toEqual({
    at: expect.stringMatching(/^\d{4}-.*Z$/),
    cause: expect.stringMatching(/^(signal|file)$/),
    result: "applied",
    changed: ["limits.requestBody", "log.level"],
    needRestart: ["limits.uri"],
    problems: [],
  });
  expect(config).toMatchObject({ log: { level: "debug" }, limits: { uri: "8KiB", requestBody: "2MiB" }, workers: 2 });
});

test("a reload reaches every worker, a bad one none", async () => {
  gateway.write(keys({ limits: { requestBody: "nonsense" } }));
  gateway.signal("SIGHUP");
  await until(() => gateway.said("configuration refused: the one in use stays").length === 1);
  expect(await gateway.metric("registry_gateway_config_last_reload_successful")).toBe(0);
  const refused = await shown<ConfigReport>("/config");
  expect(refused.lastReload).toMatchObject({
    result: "refused",
    changed: [],
    problems: [{ path: "limits.requestBody", line: expect.any(Number), message: expect.any(String) }],
  });
  expect(refused.config).toMatchObject({ limits: { requestBody: "2MiB" } });

  const upstreams = [{ name: "renamed", admin: DSO, urls: [amulet.url] }];
  gateway.write({ ...keys(), upstreams, workers: 4 });
  gateway.signal("SIGHUP");
  await until(() => gateway.said("configuration reloaded").length === 2);
  for (let i = 0; i < 4; i += 1) {
    expect((await once(at("renamed", INFO))).status).toBe(200);
    expect((await once(at("amulet", INFO))).status).toBe(404);
  }
  const isOfWorkers = ({ changed }: Readonly<Record<string, unknown>>) =>
    Array.isArray(changed) && changed.includes("workers");
  await until(() => gateway.lines.filter(isOfWorkers).length === 1);
  const { upstreams: told } = await gateway.status<Status>();
  await until(async () => (await gateway.status<Status>()).upstreams[0]!.name === "renamed");
  expect(told.length).toBeGreaterThan(0);
  expect(await gateway.metric("registry_gateway_requests_total", 'upstream="bonds"')).toBe(0);
  expect(await gateway.metric("registry_gateway_config_reloads_total")).toBe(3);
});

test("a connection that a worker had not taken when it died ends with it, and no client waits for ever", async () => {
  const victim = (await workers())[0]!;
  process.kill(victim.pid, "SIGSTOP");
  let settled = 0;
  // Enough that some of them are the stopped worker's.
  const outcomes = Array.from({ length: 24 }, () =>
    once(at("renamed", INFO))
      .then(
        ({ status }) => status,
        ({ code }: { code: string }) => code,
      )
      .finally(() => {
        settled += 1;
      }),
  );
  await until(() => settled > 0);
  process.kill(victim.pid, "SIGKILL");
  const ended = await Promise.all(outcomes);
  expect(
    ended.filter((outcome) => outcome !== 200 && outcome !== "ECONNRESET" && outcome !== "UND_ERR_SOCKET"),
  ).toEqual([]);
  expect(ended).toContain(200);
  expect(ended.some((outcome) => outcome !== 200)).toBe(true);
  await until(async () => (await workers()).filter(({ state }) => state === "listening").length === 2, 30_000);
});

test("a second gateway cannot have the port of the first, though workers share it", async () => {
  const port = Number(new URL(gateway.url).port);
  await expect(RealProcess.start(keys({ listen: { host: "127.0.0.1", port } }))).rejects.toThrow(
    `the public listener cannot have port ${port}, another process has it`,
  );
});

test("a worker that is killed costs the requests it was working on, is replaced, and its counts are kept", async () => {
  const load = new SteadyLoad({
    url: gateway.url,
    rate: 200,
    connections: 20,
    request: () => ({ method: "GET", path: `/api/token-standard/v0/registrars/renamed${INFO}` }),
  });
  await until(() => load.answered > 100);
  const victim = (await workers())[0]!;
  const counts: number[] = [await gateway.metric("registry_gateway_requests_total")];
  const missedBefore = await missed();
  process.kill(victim.pid, "SIGKILL");
  await until(async () => {
    counts.push(await gateway.metric("registry_gateway_requests_total"));
    const now = await workers();
    return now.length === 2 && now.every(({ id, state }) => id !== victim.id && state === "listening");
  }, 30_000);
  const answered = load.answered;
  await until(() => load.answered > answered + 100);
  const report = await load.stop();
  counts.push(await gateway.metric("registry_gateway_requests_total"));

  expect(counts).toEqual([...counts].sort((a, b) => a - b));
  // One request on each connection at most.
  expect(load.failed).toBeLessThanOrEqual(20);
  expect(
    Object.keys(report.failures).filter((kind) => !kind.startsWith("UND_ERR_SOCKET") && kind !== "ECONNRESET"),
  ).toEqual([]);
  expect(await gateway.metric("registry_gateway_worker_ends_total", 'reason="crashed"')).toBe(2);
  await until(() => gateway.said("worker replaced").length > 0);
  // The history keeps what the dead one had counted, and goes on.
  expect(await missed()).toBeGreaterThanOrEqual(missedBefore);
  for (let i = 0; i < 5; i += 1) await once(at("renamed", `${INSTRUMENTS}/late-${i}`));
  await until(async () => (await missed()) >= missedBefore + 5);
});

test("SIGTERM ends all of them, with 0", async () => {
  await until(() => childrenOf(gateway.pid).length === 2, 30_000);
  const all = childrenOf(gateway.pid);
  gateway.signal("SIGTERM");
  await until(async () => (await fetch(`${gateway.operations}/readyz`)).status === 503);
  const during = await once(at("renamed", INFO));
  expect(during.status).toBe(200);
  expect(await gateway.ended).toBe(0);
  await until(() => !all.some(isRunning));
});
