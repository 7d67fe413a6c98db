import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { ALERTS } from "../../../tools/alerts.ts";
import { RECORDING_RULES } from "../../../tools/recording.ts";
import { SampleRegistry } from "../../support/sample-registry.ts";
import { breakAndAsk, sendEverything, sendStrays } from "../../support/traffic.ts";
import { dashboardQueries } from "../../support/queries.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { Prometheus } from "../../support/prometheus.ts";
import { type RedisServer, startRedis } from "../../support/redis.ts";

const ROOT = join(import.meta.dirname, "../../..");
const AMULET = `amulet::1220${"a1".repeat(32)}`;
const BONDS = `bonds::1220${"b2".repeat(32)}`;
const LIAR = `liar::1220${"c3".repeat(32)}`;

/** A certificate that is good for a hundred years. */
const AUTHORITY = join(ROOT, "test/fixtures/tls/ca.pem");

/** How long traffic runs before anything is asked of Prometheus: rates need a few scrapes. */
const TRAFFIC_MS = 25_000;

let redis: RedisServer;
let registries: readonly SampleRegistry[] = [];
let gateways: readonly GatewayProcess[] = [];
let selective: GatewayProcess;
let prometheus: Prometheus;
let folder: string;

beforeAll(async () => {
  redis = await startRedis();
  const clock = systemClock();
  const make = (admin: string, options = {}) => new SampleRegistry({ admin, clock, etags: true, ...options });
  registries = [make(AMULET), make(AMULET), make(BONDS), make(LIAR)];
  await Promise.all(registries.map((registry) => registry.start()));
  const [amulet, second, bonds, liar] = registries.map(({ url }) => url);
  folder = mkdtempSync(join(tmpdir(), "prometheus-"));
  const bearerTokenFile = join(folder, "token");
  writeFileSync(bearerTokenFile, "good\n", { mode: 0o600 });
  const keys = {
    redis: { url: redis.url },
    cache: { ttl: { info: "2s", instruments: "2s", instrument: "2s" } },
    upstreams: [
      { name: "amulet", admin: AMULET, urls: [amulet, second] },
      {
        name: "bonds",
        admin: BONDS,
        urls: [bonds],
        rateLimit: { requests: 400, per: "10s", maxWait: "0s" },
        auth: { bearerTokenFile },
        cache: { staleWhileRevalidate: "0s" },
      },
      { name: "liar", admin: `truth::1220${"d4".repeat(32)}`, urls: [liar] },
    ],
  };
  gateways = [await GatewayProcess.start(keys), await GatewayProcess.start(keys)];
  // Apart from the others, whose clients send tokens that are meant for no gateway.
  const list = join(folder, "assets.json");
  writeFileSync(list, JSON.stringify({ MainNet: [{ instrumentId: { admin: BONDS }, registryURLs: [bonds] }] }));
  selective = await GatewayProcess.start({
    clients: { tiers: { anonymous: { requests: 1, per: "1m", enforce: false } } },
    routing: { plain: "amulet" },
    discovery: { every: "1s", sources: [{ file: list }], pinFile: join(folder, "pins.json"), allowPrivate: true },
    // Of no effect without TLS, but for the metric that says when the certificate ends.
    upstreams: [{ name: "amulet", admin: AMULET, urls: [amulet], tls: { caFile: AUTHORITY } }],
  });
  prometheus = await Prometheus.start({
    targets: [...gateways, selective].map(({ target }) => target),
    ruleFiles: [join(ROOT, "config/prometheus/rules.yaml")],
  });
  // Of no use in a header field: the last good one goes on being used, and an alert names it.
  writeFileSync(bearerTokenFile, "no\rgood\n");
  await runTraffic();
}, 180_000);

afterAll(async () => {
  await prometheus?.stop();
  await Promise.all([...gateways, selective].map((gateway) => gateway?.stop()));
  await Promise.all(registries.map((registry) => registry.stop()));
  await redis?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function runTraffic(): Promise<void> {
  const end = performance.now() + TRAFFIC_MS;
  for (let turn = 0; performance.now() < end; turn += 1) {
    for (const { url, operations } of gateways) {
      for (const name of ["amulet", "bonds", "liar"]) await sendEverything(url, name);
      await sendStrays(url);
      await fetch(`${url}/catalog/v1/instruments`);
      await breakAndAsk(registries[turn % 2 === 0 ? 2 : 1]!, url, turn % 2 === 0 ? "bonds" : "amulet");
      await standIn(url, operations);
      await purge(operations, { upstream: "amulet" });
    }
    await sendAsClients(selective.url);
    await sleep(200);
  }
}

/** Requests of a client that is let in, and of one that is not. */
async function sendAsClients(url: string): Promise<void> {
  const path = `${url}/registry/metadata/v1/info`;
  expect((await fetch(path)).status).toBe(200);
  expect((await fetch(path, { headers: { "x-api-key": "rgk_mistyped" } })).status).toBe(401);
}

/** What is stored of bonds answers in the place of a registry that fails. */
async function standIn(url: string, operations: string): Promise<void> {
  const bonds = registries[2]!;
  await bonds.faults.set({ kind: "status", status: 503 });
  await purge(operations, { upstream: "bonds", soft: true });
  await fetch(`${url}/api/token-standard/v0/registrars/bonds/registry/metadata/v1/info`);
  await bonds.faults.clear();
}

async function purge(operations: string, what: { upstream: string; soft?: boolean }): Promise<void> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${operations}/purge`, { method: "POST", headers, body: JSON.stringify(what) });
  expect(response.status).toBe(200);
}

describe("a real Prometheus beside two gateways under traffic and faults", () => {
  const queries = ["overview", "upstream"].flatMap((name) =>
    dashboardQueries(readFileSync(join(ROOT, `config/grafana/dashboards/${name}.json`), "utf8")).map(
      ({ title, expr }) => ({ name: `${name}: ${title}`, expr }),
    ),
  );

  test.each(queries)("has data for the panel $name", async ({ expr }) => {
    const values = (await prometheus.query(expr)).map(({ value }) => value[1]);
    expect(
      values.filter((value) => value !== "NaN"),
      expr,
    ).not.toEqual([]);
  });

  test.each(RECORDING_RULES)("has data for the recording rule $record", async ({ record }) => {
    expect(await prometheus.query(record)).not.toEqual([]);
  });

  const conditions = Object.entries(ALERTS).flatMap(([alert, { conditions }]) =>
    conditions.map(({ value }) => ({ alert, value })),
  );
  test.each(conditions)("has data for what $alert looks at", async ({ value }) => {
    expect(await prometheus.query(value), value).not.toEqual([]);
  });

  test("fires the alert about a node that serves another registry", async () => {
    const firing = await prometheus.query('ALERTS{alertname="RegistryGatewayAdminMismatch",alertstate="firing"}');
    expect(firing.map(({ metric }) => metric["upstream"])).toEqual(["liar"]);
  });

  test("fires nothing that would wake somebody without reason", async () => {
    const firing = await prometheus.query('ALERTS{alertstate="firing",severity="page"}');
    expect(firing.map(({ metric }) => metric["alertname"])).toEqual(["RegistryGatewayAdminMismatch"]);
  });

  test("is about to name the registry whose calls all fail", async () => {
    const pending = await prometheus.query('ALERTS{alertname="RegistryGatewayCallsFail"}');
    expect(pending.map(({ metric }) => [metric["upstream"], metric["kind"]])).toEqual([["liar", "other"]]);
  });
});
