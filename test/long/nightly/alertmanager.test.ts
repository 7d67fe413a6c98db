import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Alertmanager } from "../../support/alertmanager.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { Prometheus } from "../../support/prometheus.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/until.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { SteadyLoad } from "../../support/steady-load.ts";

const CONFIG = join(import.meta.dirname, "../../../config/prometheus");

/** The examples run so many times as quick: five minutes are a quarter of one. */
const SPEED = 20;

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function quicker(duration: string): string {
  return duration.replace(/([0-9]+)([smhd])/g, (_all, count, unit) => `${(Number(count) * UNITS[unit]!) / SPEED}ms`);
}

/** A file of the example with all of its durations divided: windows of expressions, waits and intervals. */
function quickly(file: string): string {
  return readFileSync(join(CONFIG, file), "utf8")
    .replace(/\[[0-9]+[smhd](?::[0-9]+[smhd])?\]/g, quicker)
    .replace(
      /^( *(?:for|interval|group_wait|group_interval|repeat_interval): )"?([0-9]+[smhd])"?$/gm,
      (_all, key, value) => {
        return `${key}${quicker(value)}`;
      },
    );
}

const registry = useSampleRegistries();

const after = async (minutes: number) => {
  const begin = Date.now();
  await until(() => Date.now() - begin >= (minutes * 60_000) / SPEED, 120_000);
};

/** Two replicas at one Redis and two registries, under load, with Prometheus and Alertmanager as the examples have them. */
async function startWatched() {
  const [dead, well] = [await registry(), await registry({ admin: `well::1220${"b2".repeat(32)}` })];
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  const keys = {
    redis: { url: redis.url },
    upstreams: [
      { name: "dead", admin: dead.admin, urls: [dead.url] },
      { name: "well", admin: well.admin, urls: [well.url] },
    ],
  };
  const replicas = [await GatewayProcess.start(keys), await GatewayProcess.start(keys)] as const;
  for (const replica of replicas) onTestFinished(async () => void (await replica.stop()));
  const folder = mkdtempSync(join(tmpdir(), "rules-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const rules = join(folder, "rules.yaml");
  writeFileSync(rules, quickly("rules.yaml"));
  const alertmanager = await Alertmanager.start(quickly("alertmanager.yaml"));
  onTestFinished(() => alertmanager.stop());
  const prometheus = await Prometheus.start({
    targets: replicas.map(({ target }) => target),
    ruleFiles: [rules],
    alertmanager: alertmanager.target,
  });
  onTestFinished(() => prometheus.stop());
  const loads = replicas.map(({ url }) => loadOf(url, [dead.admin, well.admin]));
  onTestFinished(async () => void (await Promise.all(loads.map((load) => load.stop()))));
  const firing = async () =>
    (await prometheus.query('ALERTS{alertstate="firing"}')).map(({ metric }) => metric["alertname"]!);
  await after(10);
  expect(await firing()).toEqual([]);
  return { dead, redis, replicas, alertmanager, firing };
}

/** Half of it at each registry; half of that reads, half prepares transfers. */
function loadOf(url: string, admins: readonly [string, string]): SteadyLoad {
  return new SteadyLoad({
    url,
    rate: 20,
    request(index) {
      const base = `/api/token-standard/v0/registrars/${encodeURIComponent(admins[index % 2]!)}/registry`;
      if (index % 4 < 2) return { method: "GET", path: `${base}/metadata/v1/instruments` };
      return { method: "POST", path: `${base}/transfer-instruction/v1/00aa/choice-contexts/accept`, body: "{}" };
    },
  });
}

/** The names of all alerts that one of the receivers was told of. */
const namesTo = (alertmanager: Alertmanager, receiver: string) =>
  [
    ...new Set(alertmanager.to(receiver).flatMap(({ alerts }) => alerts.map(({ labels }) => labels["alertname"]!))),
  ].sort();

const groupsTo = (alertmanager: Alertmanager, receiver: string) =>
  new Set(alertmanager.to(receiver).map(({ groupKey }) => groupKey));

test(
  "one dead registry is one page that names it, and the page ends with the fault",
  { timeout: 300_000 },
  async () => {
    const { dead, alertmanager, firing } = await startWatched();
    await dead.faults.set({ kind: "refuse" });
    await after(30);
    const names = await firing();
    // Many say so,
    expect(names).toEqual(
      expect.arrayContaining(["RegistryGatewayAllNodesDown", "RegistryGatewayErrorBudgetBurnsFast"]),
    );
    expect(names.length).toBeGreaterThan(2);
    const pages = alertmanager.to("pager");
    // and one page is sent, and again while it lasts.
    expect(groupsTo(alertmanager, "pager").size).toBe(1);
    const last = pages.at(-1)!.alerts.filter(({ status }) => status === "firing");
    expect(last).toHaveLength(1);
    expect(last[0]!.labels).toMatchObject({ alertname: "RegistryGatewayAllNodesDown", upstream: "dead" });
    // What is no page names it too.
    for (const { groupKey } of alertmanager.to("tickets")) expect(groupKey).toContain('upstream="dead"');

    await dead.faults.clear();
    await until(() => alertmanager.to("pager").at(-1)!.status === "resolved", 120_000);
    expect(groupsTo(alertmanager, "pager").size).toBe(1);
  },
);

test("a replica that is gone pages nobody, and is one ticket that says so", { timeout: 300_000 }, async () => {
  const { replicas, alertmanager, firing } = await startWatched();
  replicas[1].signal("SIGKILL");
  await after(20);
  expect(await firing()).toEqual(["RegistryGatewayReplicaGone"]);
  expect(alertmanager.to("pager")).toEqual([]);
  expect(namesTo(alertmanager, "tickets")).toEqual(["RegistryGatewayReplicaGone"]);
  expect(groupsTo(alertmanager, "tickets").size).toBe(1);
});

test(
  "a dead Redis pages nobody, and is one ticket for all replicas, which ends with it",
  { timeout: 300_000 },
  async () => {
    const { redis, alertmanager, firing } = await startWatched();
    await redis.kill();
    await after(20);
    expect(await firing()).toEqual(["RegistryGatewayRedisAway", "RegistryGatewayRedisAway"]);
    expect(alertmanager.to("pager")).toEqual([]);
    expect(namesTo(alertmanager, "tickets")).toEqual(["RegistryGatewayRedisAway"]);
    expect(groupsTo(alertmanager, "tickets").size).toBe(1);
    await redis.start();
    await until(() => alertmanager.to("tickets").at(-1)!.status === "resolved", 120_000);
    expect(alertmanager.to("pager")).toEqual([]);
  },
);
