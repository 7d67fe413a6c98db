import { type MetricKey, METRICS, METRIC_GROUPS } from "../src/observe/metrics/table.ts";
import type { Definition } from "../src/observe/metrics/definition.ts";
import { CHOSEN_UPSTREAM as q, renderDashboard } from "./dashboard.ts";
import { type PanelSpec, panelsOf } from "./dashboard-panels.ts";
import { upstreamPanels } from "./dashboard-upstream-panels.ts";
import { versionPanels } from "./dashboard-versions.ts";
import { sum } from "./promql.ts";

const REQUESTS: readonly PanelSpec[] = [
  {
    title: "Requests by endpoint",
    description: "Requests of clients that were about this registry.",
    unit: "per second",
    queries: [{ expr: sum(["upstream", "operation"], q.rate("requests")), legend: "{{upstream}} {{operation}}" }],
  },
  {
    title: "Requests by status",
    description: "Requests of clients that were about this registry.",
    unit: "per second",
    queries: [{ expr: sum(["upstream", "status"], q.rate("requests")), legend: "{{upstream}} {{status}}" }],
  },
  {
    title: "Answers by outcome",
    description: "Answers of cached endpoints, by what the cache made of them.",
    unit: "per second",
    queries: [{ expr: sum(["upstream", "outcome"], q.rate("cacheAnswers")), legend: "{{upstream}} {{outcome}}" }],
  },
  ...versionPanels(q, ["upstream"]),
];

/** Metrics of the cache that are about one upstream and not shown above. */
const CACHE_KEYS = (Object.keys(METRIC_GROUPS.Cache) as MetricKey[]).filter((key) => {
  const definition: Definition = METRICS[key];
  return definition.labels["upstream"] !== undefined && key !== "cacheAnswers";
});

/** All metrics about the chosen upstreams. */
export function renderUpstreamDashboard(): string {
  const keys = Object.keys(METRIC_GROUPS.Upstreams) as MetricKey[];
  return renderDashboard({
    uid: "registry-gateway-upstream",
    title: "Registry Gateway / Upstream",
    description: "One registry, or some: what clients asked of it, how its nodes did, what was held back.",
    hasUpstream: true,
    rows: [
      { title: "Health", panels: upstreamPanels(q) },
      { title: "Requests", panels: REQUESTS },
      { title: "Details", panels: panelsOf([...CACHE_KEYS, ...keys], q) },
    ],
  });
}
