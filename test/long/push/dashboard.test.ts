import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { ACCEPT, INFO, LIST, PREFIX } from "../../support/endpoints.ts";
import { temporaryFolder } from "../../support/gateway.ts";
import { Site } from "../../support/http.ts";
import { keyLine, newKey, writeKeys } from "../../support/keys.ts";
import { type GatewayProcess, startProcess } from "../../support/process.ts";
import { readYaml, ROOT } from "../../support/project.ts";
import { Prometheus } from "../../support/prometheus.ts";
import { startRedis } from "../../support/redis.ts";
import { type Registry, startRegistry } from "../../support/registry.ts";

interface Dashboard {
  readonly templating: { readonly list: readonly { name: string; type: string; query: string; multi?: boolean }[] };
  readonly panels: readonly {
    readonly title: string;
    readonly type: string;
    readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
}

/** What Grafana takes where each second is scraped and shown: four scrapes. */
const RATE_INTERVAL = "4s";
const PATIENCE = 25_000;

const TLS = join(ROOT, "test/fixtures/tls");
const { templating, panels } = readYaml("config/grafana/dashboard.json") as Dashboard;

let amulet: Registry;
let gateway: GatewayProcess;
let site: Site;
let prometheus: Prometheus;

beforeAll(async () => {
  amulet = await startRegistry("amulet", { nodes: 2 });
  const redis = await startRedis();
  const keysFile = writeKeys(temporaryFolder(), [keyLine(newKey(), "wallet", "anonymous")]);
  gateway = await startProcess({
    listen: { tls: { certFile: join(TLS, "server.pem"), keyFile: join(TLS, "server-key.pem") } },
    redis: { url: redis.url },
    clients: { keysFile, tiers: { anonymous: {} } },
    upstreams: [amulet.upstream({ agreement: 2, concurrency: 4, rateLimit: { requests: "100000/1m" } })],
  });
  site = new Site(gateway.site.url, readFileSync(join(TLS, "ca.pem")));
  prometheus = await Prometheus.start([new URL(gateway.operations.url).host]);
});

/** Misses and hits, calls more than run at once, and one error of each kind: a node's, a client's, the gateway's own. */
async function sendRound(): Promise<void> {
  await gateway.operations.purge();
  amulet.on("info", { status: 503, body: { error: "closed" } }, 0).on("instruments", "reset", 0);
  for (const path of [LIST, LIST, INFO]) await site.get(`${PREFIX}/amulet${path}`);
  amulet.reset();
  await Promise.all(Array.from({ length: 12 }, () => site.post(`${PREFIX}/amulet${ACCEPT}`)));
  await site.get(`${PREFIX}/nobody${LIST}`);
  await site.get(`${PREFIX}/amulet${LIST}`, { "x-api-key": newKey() });
}

/** The values of the dashboard's variables, as Grafana asks for them when it is opened; of several it takes all. */
async function variables(): Promise<Map<string, string>> {
  const values = new Map([["$__rate_interval", RATE_INTERVAL]]);
  for (const { name, query, multi } of templating.list.filter((each) => each.type === "query")) {
    const [, selector = "", label = ""] = /^label_values\((.+), (\w+)\)$/.exec(query) ?? [];
    const found = await prometheus.labelValues(replaced(selector, values), label);
    if (found.length === 0) throw new Error(`the variable ${name} has no value`);
    values.set(`$${name}`, multi === true ? `(${found.join("|")})` : found.toSorted()[0]!);
  }
  return values;
}

function replaced(expr: string, values: ReadonlyMap<string, string>): string {
  return [...values].reduce((text, [name, value]) => text.replaceAll(name, value), expr);
}

/**
 * Queries that show nothing, or have a label in the legend that no series has. The nought that stands where nothing of a kind has
 * happened does not count.
 */
async function queriesWithoutData(): Promise<string[]> {
  const values = await variables();
  const queries = panels.flatMap(({ title, targets = [] }) => targets.map((each) => ({ title, ...each })));
  const found = queries.map(async ({ title, expr, legendFormat }) => {
    const series = await prometheus.query(replaced(expr, values).replaceAll("vector(0)", "(vector(0) < 0)"));
    const labels = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label);
    const isShown = series.some(
      (each) => Number.isFinite(each.value) && labels.every((label) => each.labels[label] !== undefined),
    );
    return isShown ? [] : [`${title}: ${expr}`];
  });
  return (await Promise.all(found)).flat();
}

test("no panel of the dashboard is without data under a load", async () => {
  expect(panels.filter(({ targets }) => targets !== undefined).length).toBeGreaterThan(25);
  const end = performance.now() + PATIENCE;
  let missing: string[];
  do {
    await sendRound();
    missing = await queriesWithoutData().catch((error: unknown) => [String(error)]);
  } while (missing.length > 0 && performance.now() < end);
  expect(missing).toEqual([]);
});
