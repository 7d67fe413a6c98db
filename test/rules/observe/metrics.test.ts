import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { FAMILIES, type Family, PREFIX } from "../../../src/observe/metrics-table.ts";
import { Metrics } from "../../../src/observe/metrics.ts";
import { ROWS, dashboard } from "../../../tools/dashboard.ts";
import { metricsPage } from "../../../tools/metrics-page.ts";
import { aRecord, aState, anUpstream } from "./states.ts";

const ROOT = join(import.meta.dirname, "../../..");
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/** The lines of one family, without the prefix. */
async function linesOf(metrics: Metrics, name: string, state = aState()): Promise<string[]> {
  const lines = (await metrics.text(state)).split("\n").filter((line) => line.startsWith(PREFIX + name));
  return lines.map((line) => line.slice(PREFIX.length));
}

describe("the families", () => {
  const families = Object.entries<Family>(FAMILIES);
  const [group] = (parse(read("config/prometheus/rules.yaml")) as { groups: [{ rules: { expr: string }[] }] }).groups;
  const alerts = group.rules.map(({ expr }) => expr);
  const panels = ROWS.flatMap((row) => row.panels.flatMap(({ queries }) => queries.map(([expr]) => expr)));
  const expressions = [...alerts, ...panels];
  const nameIn = /registry_gateway_[a-z0-9_]+/g;

  it("are at most 42, in base units", () => {
    expect(families.length).toBeLessThanOrEqual(42);
    for (const [name, { type }] of families) {
      expect(name.endsWith("_total"), name).toBe(type === "counter");
      expect(name, name).not.toMatch(/_(ms|milliseconds|kb|mb)(_|$)/);
    }
  });

  it("are each shown by a panel or read by an alert", () => {
    const used = new Set(expressions.flatMap((expr) => expr.match(nameIn) ?? []));
    const names = families.map(([name]) => PREFIX + name);
    const unused = names.filter((name) => !used.has(name) && !used.has(`${name}_bucket`));
    expect(unused).toEqual([]);
  });

  it("have every name and label that a panel or an alert reads", () => {
    for (const expr of expressions) {
      for (const [, full = "", selector = ""] of expr.matchAll(/(registry_gateway_[a-z0-9_]+)(?:\{([^}]*)\})?/g)) {
        const name = full.slice(PREFIX.length).replace(/_bucket$/, "");
        expect(Object.keys(FAMILIES), expr).toContain(name);
        const { labels } = FAMILIES[name as keyof typeof FAMILIES] as Family;
        const read = [...selector.matchAll(/(\w+)(?:=|!=|=~|!~)"/g)].map(([, label]) => label!);
        expect([...labels, "job", "instance", "le"], expr).toEqual(expect.arrayContaining(read));
      }
    }
  });

  it("have values of labels that panels and alerts read by name", async () => {
    const state = aState({ upstreams: [anUpstream({ state: "disabled" })] });
    const text = await new Metrics().text(state);
    for (const value of ['state="up"', 'state="down"', 'state="disabled"', 'state="wrong"', 'mode="cache-only"']) {
      expect(text).toContain(value);
    }
  });

  it("are in the page and the dashboard as they are kept in the repository", () => {
    expect(read("docs/metrics.md")).toBe(metricsPage());
    expect(read("config/grafana/dashboard.json")).toBe(dashboard());
  });

  it("fill about thirty panels, six of them at a glance", () => {
    expect(ROWS.map(({ panels: { length } }) => length)).toEqual([6, 7, 8, 6, 5]);
    const board = JSON.parse(dashboard()) as { panels: { id: number; gridPos: { x: number; w: number } }[] };
    expect(new Set(board.panels.map(({ id }) => id)).size).toBe(board.panels.length);
    for (const { gridPos } of board.panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
  });
});

describe("what is counted", () => {
  it("of requests is their operation, registry, status, code, outcome, client and time", async () => {
    const metrics = new Metrics();
    metrics.requestEnded(aRecord({ outcome: "hit", client: "wallet", seconds: 0.003 }));
    metrics.requestEnded(aRecord({ outcome: "hit", client: "wallet", seconds: 0.3 }));
    metrics.requestEnded(aRecord({ status: 503, code: "upstream_down", operation: "transfer_factory" }));
    metrics.requestEnded(aRecord({ status: 499, code: "client_gone", operation: undefined, upstream: undefined }));
    metrics.requestEnded(aRecord({ status: 401, code: "credential_invalid", operation: undefined }));
    expect(await linesOf(metrics, "requests_total")).toEqual([
      'requests_total{operation="instrument",upstream="amulet",status="2xx"} 2',
      'requests_total{operation="transfer_factory",upstream="amulet",status="5xx"} 1',
      'requests_total{operation="none",upstream="none",status="gone"} 1',
      'requests_total{operation="none",upstream="amulet",status="4xx"} 1',
    ]);
    expect(await linesOf(metrics, 'request_duration_seconds_bucket{le="0.25",operation="instrument"')).toEqual([
      'request_duration_seconds_bucket{le="0.25",operation="instrument",outcome="hit"} 1',
    ]);
    expect(await linesOf(metrics, "cache_answers_total")).toEqual([
      'cache_answers_total{upstream="amulet",operation="instrument",outcome="hit"} 2',
    ]);
    expect(await linesOf(metrics, "client_requests_total")).toEqual([
      'client_requests_total{client="wallet",status="2xx"} 2',
    ]);
    expect(await linesOf(metrics, "client_refusals_total")).toEqual([
      'client_refusals_total{client="none",code="credential_invalid"} 1',
    ]);
    expect(await linesOf(metrics, "errors_total")).toHaveLength(3);
    const { requests, hits, cacheable, failed, latency } = metrics.totals.all;
    expect({ requests, hits, cacheable, failed }).toEqual({ requests: 5, hits: 2, cacheable: 2, failed: 1 });
    expect(latency.reduce((sum, each) => sum + each, 0)).toBe(5);
  });

  it("goes on over many scrapes and more values than wait at once", async () => {
    const metrics = new Metrics();
    for (let i = 0; i < 1_000; i += 1) metrics.requestEnded(aRecord({ outcome: "hit" }));
    await metrics.text(aState());
    metrics.requestEnded(aRecord({ outcome: "hit" }));
    const [line] = await linesOf(metrics, "request_duration_seconds_count");
    expect(line).toMatch(/ 1001$/);
  });

  it("of clients has a bounded number of names", async () => {
    const metrics = new Metrics();
    for (let i = 0; i < 700; i += 1) metrics.requestEnded(aRecord({ client: `token-${i}` }));
    const lines = await linesOf(metrics, "client_requests_total");
    expect(lines).toHaveLength(501);
    expect(lines.at(-1)).toBe('client_requests_total{client="other",status="2xx"} 200');
  });

  it("of registries is each attempt, retry, refusal and agreement", async () => {
    const metrics = new Metrics();
    const { upstream } = metrics;
    upstream.attemptEnded("amulet", "info", "success", 0.01);
    upstream.attemptEnded("amulet", "instruments", "late", 5);
    upstream.attemptEnded("amulet", "transfer_factory", "not_found", 0.02);
    upstream.retried("amulet", "hedge");
    upstream.callRefused("amulet", "rate_limited");
    upstream.agreed("amulet", "disagreed");
    expect(await linesOf(metrics, "upstream_attempts_total")).toHaveLength(3);
    const counts = (await linesOf(metrics, "upstream_attempt_duration_seconds_count")).map((line) =>
      line.split("=").at(-1),
    );
    expect(counts).toEqual(['"info"} 1', '"metadata"} 1', '"call"} 1']);
    expect(await linesOf(metrics, "upstream_retries_total")).toEqual([
      'upstream_retries_total{upstream="amulet",kind="hedge"} 1',
    ]);
    expect(await linesOf(metrics, "upstream_refused_calls_total")).toHaveLength(1);
    expect(await linesOf(metrics, "upstream_agreements_total")).toHaveLength(1);
    expect(metrics.totals.of("amulet")).toMatchObject({ attempts: 3, failed: 1 });
    expect(metrics.totals.of("never")).toMatchObject({ attempts: 0, failed: 0 });
  });
});

describe("states", () => {
  const now = 1_790_000_000_000;

  it("are read at the scrape, and what is gone is shown no more", async () => {
    const metrics = new Metrics();
    const limit = { requests: "120/1m", waiting: 3 };
    const nodes = [{ state: "up", pausedUntil: now + 1_000 }, { state: "out" }] as const;
    const busy = aState({ now, upstreams: [anUpstream({ name: "busy", limit, nodes, inFlight: 7 })] });
    const text = await metrics.text(busy);
    for (const line of [
      'upstream_state{upstream="busy",state="up"} 1',
      'upstream_state{upstream="busy",state="down"} 0',
      'upstream_nodes{upstream="busy",state="up"} 1',
      'upstream_nodes{upstream="busy",state="out"} 1',
      'upstream_paused_nodes{upstream="busy"} 1',
      'upstream_limit_waiting{upstream="busy"} 3',
      'upstream_limit_per_second{upstream="busy"} 2',
      'upstream_calls_in_flight{upstream="busy"} 7',
    ]) {
      expect(text).toContain(`${PREFIX}${line}\n`);
    }
    expect(await metrics.text(aState())).not.toContain("busy");
  });

  it.each([
    { redis: "off", lines: [] },
    { redis: "up", lines: ["redis_up 1"] },
    { redis: "away", lines: ["redis_up 0"] },
  ] as const)("of a Redis that is $redis", async ({ redis, lines }) => {
    expect(await linesOf(new Metrics(), "redis_up", aState({ redis: { redis, replicas: 2 } }))).toEqual(lines);
  });

  it("of the configuration are its digest, its reload, its certificates and the version", async () => {
    const state = aState({
      now,
      digest: "0123456789ab",
      reload: { takenAt: now - 60_000, refused: { at: now, problem: "line 3" } },
      certificates: [{ role: "listener", peer: "clients", endsAt: now + 86_400_000 }],
      droppedLines: 4,
    });
    const text = await new Metrics().text(state);
    expect(text).toContain('config_info{digest="0123456789ab"} 1');
    expect(text).toContain("config_last_reload_successful 0");
    expect(text).toContain(`config_taken_timestamp_seconds ${(now - 60_000) / 1_000}`);
    expect(text).toContain('certificate_expiry_seconds{role="listener",peer="clients"} 86400');
    expect(text).toContain("log_lines_dropped_total 4");
    expect(text).toMatch(/build_info\{version="\d+\.\d+\.\d+"\} 1/);
    expect(text).toContain("process_cpu_seconds_total");
  });
});
