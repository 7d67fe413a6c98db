import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { describe, expect, test } from "vitest";
import { createLogger } from "../../src/observe/log.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { collectProcessMetrics } from "../../src/observe/metrics/process.ts";
import { METRICS } from "../../src/observe/metrics/table.ts";
import { renderOverview } from "../../tools/dashboard-overview.ts";
import { renderUpstreamDashboard } from "../../tools/dashboard-upstream.ts";
import { metricOf } from "../support/exposition.ts";
import { dashboardQueries } from "../support/queries.ts";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "config/grafana/dashboards");
const NAMES = ["overview", "upstream"] as const;

const Datasource = Type.Object({ type: Type.Literal("prometheus"), uid: Type.Literal("${datasource}") });

const GridPos = Type.Object({
  x: Type.Integer({ minimum: 0, maximum: 23 }),
  y: Type.Integer({ minimum: 0 }),
  w: Type.Integer({ minimum: 1, maximum: 24 }),
  h: Type.Integer({ minimum: 1 }),
});

const Row = Type.Object({ type: Type.Literal("row"), id: Type.Integer(), title: Type.String(), gridPos: GridPos });

const Panel = Type.Object({
  type: Type.Union([Type.Literal("timeseries"), Type.Literal("stat"), Type.Literal("state-timeline")]),
  id: Type.Integer({ minimum: 1 }),
  title: Type.String({ minLength: 1 }),
  description: Type.String({ minLength: 1 }),
  datasource: Datasource,
  gridPos: GridPos,
  fieldConfig: Type.Object({ defaults: Type.Object({ unit: Type.String() }), overrides: Type.Array(Type.Unknown()) }),
  options: Type.Record(Type.String(), Type.Unknown()),
  targets: Type.Array(
    Type.Object({ refId: Type.String({ pattern: "^[A-Z]$" }), expr: Type.String(), legendFormat: Type.String() }),
    { minItems: 1 },
  ),
});

/** What Grafana's dashboard schema (version 42) asks of a dashboard, as far as these use it. */
const Dashboard = Type.Object({
  uid: Type.String({ pattern: "^[a-z0-9-]{1,40}$" }),
  title: Type.String({ minLength: 1 }),
  tags: Type.Array(Type.String()),
  schemaVersion: Type.Literal(42),
  editable: Type.Boolean(),
  graphTooltip: Type.Integer(),
  time: Type.Object({ from: Type.String(), to: Type.String() }),
  refresh: Type.String(),
  templating: Type.Object({
    list: Type.Array(
      Type.Object({
        name: Type.String(),
        type: Type.Union([Type.Literal("datasource"), Type.Literal("query")]),
        query: Type.String(),
      }),
    ),
  }),
  annotations: Type.Object({
    list: Type.Array(
      Type.Object({
        name: Type.String(),
        datasource: Datasource,
        enable: Type.Boolean(),
        iconColor: Type.String(),
        expr: Type.String(),
      }),
    ),
  }),
  panels: Type.Array(Type.Union([Row, Panel])),
});

const validator = Compile(Dashboard);

function read(name: (typeof NAMES)[number]): string {
  return readFileSync(join(FOLDER, `${name}.json`), "utf8");
}

function parse(name: (typeof NAMES)[number]): Type.Static<typeof Dashboard> {
  return JSON.parse(read(name)) as Type.Static<typeof Dashboard>;
}

describe.each(NAMES)("the dashboard %s", (name) => {
  test("is as the code says", () => {
    expect(read(name)).toBe(name === "overview" ? renderOverview() : renderUpstreamDashboard());
  });

  test("is valid for Grafana", () => {
    expect([...validator.Errors(parse(name))]).toEqual([]);
  });

  test("has panels with ids of their own that do not lie upon each other", () => {
    const { panels } = parse(name);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const taken = new Set<string>();
    for (const { title, gridPos } of panels) {
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          expect(taken.has(`${x} ${y}`), title).toBe(false);
          taken.add(`${x} ${y}`);
        }
      }
    }
  });

  test("asks only for metrics that exist", () => {
    const known = new Set<string>(Object.values(METRICS).map((metric) => metric.name));
    for (const { expr } of dashboardQueries(read(name))) {
      for (const [word] of expr.matchAll(/\bregistry_gateway_[a-z0-9_]+/g)) {
        expect(known.has(word) || known.has(metricOf(word)), word).toBe(true);
      }
    }
  });

  test("has the variables that its queries use", () => {
    const variables = new Set(parse(name).templating.list.map((variable) => variable.name));
    const used = [...read(name).matchAll(/\$\{?([a-z]+)\b/g)].map(([, variable]) => variable!);
    for (const variable of used) expect(variables.has(variable), variable).toBe(true);
  });

  test("marks reloads and purges", () => {
    expect(parse(name).annotations.list.map((annotation) => annotation.name)).toEqual(["Reloads", "Purges"]);
  });
});

/** All files below these folders that end so, as one text. */
function textOf(folders: readonly string[], ending: RegExp): string {
  return folders
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
        .filter((file) => ending.test(file))
        .map((file) => readFileSync(join(ROOT, folder, file), "utf8")),
    )
    .join("\n");
}

describe("a metric that nobody reads goes:", () => {
  const panels = NAMES.flatMap((name) => dashboardQueries(read(name))).map(({ expr }) => expr);
  const rules = readFileSync(join(ROOT, "config/prometheus/rules.yaml"), "utf8");
  const pages = textOf(["console"], /\.tsx?$/);
  const runbooks = readFileSync(join(ROOT, "docs/operations/runbooks.md"), "utf8");
  const readers = [...panels, rules, pages, runbooks].join("\n");

  test.each(Object.values(METRICS).map(({ name }) => name))("%s is in a panel, an alert or the console", (name) => {
    expect(new RegExp(`\\b${name}(_bucket|_sum|_count)?\\b`).test(readers)).toBe(true);
  });

  test("so do those of the client library", async () => {
    const { metrics, registry } = createMetrics();
    collectProcessMetrics(metrics, registry, createLogger("silent"));
    const others = registry.getMetricsAsArray().filter(({ name }) => !name.startsWith("registry_gateway_"));
    expect(others.length).toBeGreaterThan(0);
    for (const { name } of others) expect(name).toMatch(/^process_/);
  });
});
