import { UPSTREAM_STATES } from "../src/upstream/status.ts";
import type { PanelSpec } from "./dashboard-panels.ts";
import { type Queries, ratio, sum } from "./promql.ts";

const STATE_COLOR: Readonly<Record<(typeof UPSTREAM_STATES)[number], string>> = {
  up: "green",
  degraded: "yellow",
  failing: "red",
  unproved: "blue",
  "wrong-admin": "purple",
  disabled: "text",
};

const STATES = UPSTREAM_STATES.map((text, value) => ({ value, text, color: STATE_COLOR[text] }));

/** How the registries are doing, in a few panels: in the overview all of them, in the drill-down the chosen ones. */
export function upstreamPanels(q: Queries): readonly PanelSpec[] {
  const states = UPSTREAM_STATES.map((state, value) => `${q.series("upstreamState", { state })} * ${value}`);
  return [
    {
      title: "Health",
      description: "The state of each upstream; of several replicas the worst.",
      unit: "state",
      kind: "timeline",
      width: 24,
      states: STATES,
      queries: [{ expr: `max by (upstream) (${states.join(" or ")})`, legend: "{{upstream}}" }],
    },
    ...attemptPanels(q),
    ...limitPanels(q),
  ];
}

function attemptPanels(q: Queries): readonly PanelSpec[] {
  const extra = `(${q.rate("upstreamRetries")} or ${q.rate("upstreamHedges", { result: "started" })})`;
  const checks = sum(["upstream"], q.rate("upstreamChecks"));
  return [
    {
      title: "Latency of calls (p95)",
      description: "From sending a call to a node to the end of its answer.",
      unit: "seconds",
      queries: [{ expr: q.quantile(0.95, "upstreamDuration", ["upstream", "kind"]), legend: "{{upstream}} {{kind}}" }],
    },
    {
      title: "Failed calls",
      description: "Share of calls to nodes without a usable answer.",
      unit: "share",
      queries: [
        {
          expr: ratio(["upstream"], q.rate("upstreamAttempts", { outcome: "failure" }), q.rate("upstreamAttempts")),
          legend: "{{upstream}}",
        },
      ],
    },
    {
      title: "Retry amplification",
      description: "Calls to nodes for each call that was wanted: 1 without retries and hedges.",
      unit: "count",
      queries: [
        {
          expr: `1 / (1 - clamp_max(${ratio(["upstream"], extra, q.rate("upstreamAttempts"))}, 0.99))`,
          legend: "{{upstream}}",
        },
      ],
    },
    {
      title: "Calls to registries",
      description: "What registries see of this gateway, checks included.",
      unit: "per second",
      queries: [
        {
          // Nodes are checked always, called only for requests.
          expr: `${checks} + (${sum(["upstream"], q.rate("upstreamAttempts"))} or 0 * ${checks})`,
          legend: "{{upstream}}",
        },
      ],
    },
  ];
}

function limitPanels(q: Queries): readonly PanelSpec[] {
  return [
    {
      title: "Rate limit used",
      description: "Share of rateLimit that is spent in the current window.",
      unit: "share",
      max: 1,
      queries: [
        {
          expr: `1 - min by (upstream) (${q.series("rateLimitLeft")}) / max by (upstream) (${q.series("rateLimit")})`,
          legend: "{{upstream}}",
        },
      ],
    },
    {
      title: "Saturation",
      description: "Calls that run, as a share of concurrency.max; above 1 calls wait.",
      unit: "share",
      queries: [
        {
          expr: `(${sum(["upstream"], q.series("upstreamInFlight"))} + ${sum(["upstream"], q.series("upstreamQueued"))}) / ${sum(["upstream"], q.series("upstreamMaxInFlight"))}`,
          legend: "{{upstream}}",
        },
      ],
    },
  ];
}
