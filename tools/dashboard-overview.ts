import { METRIC_GROUPS, type MetricKey } from "../src/observe/metrics/table.ts";
import { type DashboardRow, EVERYTHING as q, renderDashboard } from "./dashboard.ts";
import { type PanelSpec, panelsOf } from "./dashboard-panels.ts";
import { ratio, sum } from "./promql.ts";
import { upstreamPanels } from "./dashboard-upstream-panels.ts";
import { versionPanels } from "./dashboard-versions.ts";

const SERVED_FROM_CACHE = { outcome: ["hit", "stale", "revalidated"] } as const;
const CACHEABLE = { outcome: { not: ["bypass"] } } as const;

const SUMMARY: readonly PanelSpec[] = [
  {
    title: "Requests",
    description: "Requests answered each second.",
    unit: "per second",
    kind: "stat",
    width: 4,
    queries: [{ expr: sum([], q.rate("requests")), legend: "requests" }],
  },
  {
    title: "Server errors",
    description: "Share of requests answered with a 5xx.",
    unit: "share",
    kind: "stat",
    width: 4,
    thresholds: { yellow: 0.001, red: 0.0144 },
    queries: [{ expr: ratio([], q.rate("requests", { status: "5xx" }), q.rate("requests")), legend: "5xx" }],
  },
  {
    title: "Hit ratio",
    description: "Share of the answers of cached endpoints that needed no body from an upstream.",
    unit: "share",
    kind: "stat",
    width: 4,
    thresholds: { yellow: 0.8, red: 0.5, below: true },
    queries: [
      {
        expr: ratio([], q.rate("cacheAnswers", SERVED_FROM_CACHE), q.rate("cacheAnswers", CACHEABLE)),
        legend: "hits",
      },
    ],
  },
  {
    title: "Stale answers",
    description: "Share of the answers of cached endpoints that were stale.",
    unit: "share",
    kind: "stat",
    width: 4,
    thresholds: { yellow: 0.05, red: 0.2 },
    queries: [
      { expr: ratio([], q.rate("cacheAnswers", { outcome: "stale" }), q.rate("cacheAnswers")), legend: "stale" },
    ],
  },
  {
    title: "Upstreams not up",
    description: "Upstreams of which not every node takes requests.",
    unit: "count",
    kind: "stat",
    width: 4,
    thresholds: { yellow: 1, red: 2 },
    queries: [
      {
        expr: `count(max by (upstream) (${q.series("upstreamState", { state: "up" })}) == 0) or vector(0)`,
        legend: "not up",
      },
    ],
  },
  {
    title: "Replicas",
    description: "Replicas that are scraped.",
    unit: "count",
    kind: "stat",
    width: 4,
    queries: [{ expr: `count(${q.series("buildInfo")})`, legend: "replicas" }],
  },
];

const TRAFFIC: readonly PanelSpec[] = [
  {
    title: "Requests by endpoint",
    description: "Requests answered each second.",
    unit: "per second",
    queries: [{ expr: sum(["operation"], q.rate("requests")), legend: "{{operation}}" }],
  },
  {
    title: "Errors by endpoint",
    description: "Share of requests answered with a 5xx.",
    unit: "share",
    queries: [
      {
        expr: ratio(["operation"], q.rate("requests", { status: "5xx" }), q.rate("requests")),
        legend: "{{operation}}",
      },
    ],
  },
  {
    title: "Latency by endpoint (p95)",
    description: "From the request's head to the answer's last byte; 95 % were faster.",
    unit: "seconds",
    queries: [{ expr: q.quantile(0.95, "requestDuration", ["operation"]), legend: "{{operation}}" }],
  },
  ...versionPanels(q),
];

const CLIENTS: readonly PanelSpec[] = [
  {
    title: "Refused requests",
    description: "Share of each client's requests that were refused because of who sent them, or how many.",
    unit: "share",
    max: 1,
    queries: [{ expr: ratio(["client"], q.rate("clientRefusals"), q.rate("clientRequests")), legend: "{{client}}" }],
  },
];

const CACHE: readonly PanelSpec[] = [
  {
    title: "Hit ratio by requests",
    description: "Share of answers that needed no body from an upstream.",
    unit: "share",
    max: 1,
    queries: [
      {
        expr: ratio(["operation"], q.rate("cacheAnswers", SERVED_FROM_CACHE), q.rate("cacheAnswers", CACHEABLE)),
        legend: "{{operation}}",
      },
    ],
  },
  {
    title: "Age served (p99)",
    description: "What the oldest percent of answers was.",
    unit: "seconds",
    queries: [{ expr: q.quantile(0.99, "servedAge", ["operation"]), legend: "{{operation}}" }],
  },
  {
    title: "Stale windows used (p99)",
    description:
      "How near the end of staleIfError the answers are that stand in for failures: at 1 clients get errors.",
    unit: "share",
    max: 1,
    queries: [{ expr: q.quantile(0.99, "windowUsed", ["operation"]), legend: "{{operation}}" }],
  },
  {
    title: "Memory tier in use",
    description: "Bytes held, as a share of the bound.",
    unit: "share",
    max: 1,
    queries: [
      {
        expr: `sum by (instance) (${q.series("cacheBytes")}) / sum by (instance) (${q.series("cacheMaxBytes")})`,
        legend: "{{instance}}",
      },
    ],
  },
];

const PROCESS: readonly PanelSpec[] = [
  {
    title: "Event loop utilization",
    description: "Share of the time in which the event loop was busy. Above 0.9, requests wait for each other.",
    unit: "share",
    max: 1,
    queries: [
      {
        expr: ratio(
          ["instance"],
          q.rate("eventLoopActive"),
          `(${q.rate("eventLoopActive")} + ${q.rate("eventLoopIdle")})`,
        ),
        legend: "{{instance}}",
      },
    ],
  },
  library("CPU", "share", "sum by (instance) (rate(process_cpu_seconds_total{SCOPE}[$__rate_interval]))"),
  library("Resident memory", "bytes", "sum by (instance) (process_resident_memory_bytes{SCOPE})"),
  library("Open file descriptors", "count", "sum by (instance) (process_open_fds{SCOPE})"),
];

/** A panel of the client library's own metrics about the process. */
function library(title: string, unit: PanelSpec["unit"], expr: string): PanelSpec {
  const scope = 'job=~"$job",instance=~"$instance"';
  return {
    title,
    description: "Of each replica.",
    unit,
    queries: [{ expr: expr.replace("SCOPE", scope), legend: "{{instance}}" }],
  };
}

function tableRow(title: keyof typeof METRIC_GROUPS, derived: readonly PanelSpec[]): DashboardRow {
  const keys = Object.keys(METRIC_GROUPS[title]) as MetricKey[];
  return { title, panels: [...derived, ...panelsOf(keys, q)] };
}

/** Everything at a glance, then all metrics that are not about one upstream. */
export function renderOverview(): string {
  return renderDashboard({
    uid: "registry-gateway-overview",
    title: "Registry Gateway / Overview",
    description: "Rate, errors and duration per endpoint, who calls, the cache, the registries, Redis and the process.",
    hasUpstream: false,
    rows: [
      { title: "At a glance", panels: SUMMARY },
      tableRow("Traffic", TRAFFIC),
      tableRow("Clients", CLIENTS),
      tableRow("Cache", CACHE),
      { title: "Upstreams", panels: upstreamPanels(q) },
      tableRow("Discovery", []),
      tableRow("Redis", []),
      tableRow("Process", PROCESS),
    ],
  });
}
