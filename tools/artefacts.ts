import { RUNBOOKS, renderPrometheusRule, renderRules, renderRunbooks } from "./alerts.ts";
import type { Artefact } from "./artefact.ts";
import { renderClientTypes } from "./client-types.ts";
import { renderConfigExample } from "./config-example.ts";
import { renderConfigJsonSchema } from "./config-json-schema.ts";
import { renderFirstKeys, renderTopic } from "./config-table.ts";
import { renderOverview } from "./dashboard-overview.ts";
import { renderUpstreamDashboard } from "./dashboard-upstream.ts";
import { renderHelmValuesSchema } from "./helm-values-schema.ts";
import { renderDocument } from "./openapi/document.ts";
import { renderErrorsTable, renderLogEvents, renderMetricsTable } from "./reference-tables.ts";

/** Everything in the project that is generated from code. */
export const artefacts: readonly Artefact[] = [
  { file: "client/api.ts", render: renderClientTypes },
  { file: "config/gateway.schema.json", render: renderConfigJsonSchema },
  { file: "config/gateway.yaml", render: renderConfigExample },
  { file: "config/grafana/dashboards/overview.json", render: renderOverview },
  { file: "config/grafana/dashboards/upstream.json", render: renderUpstreamDashboard },
  { file: "config/prometheus/rules.yaml", render: renderRules },
  { file: "config/kubernetes/prometheus-rule.yaml", render: renderPrometheusRule },
  // A chart holds what it installs: Helm reads nothing beside its folder.
  { file: "config/helm/files/rules.yaml", render: renderRules },
  { file: "config/helm/files/dashboards/overview.json", render: renderOverview },
  { file: "config/helm/files/dashboards/upstream.json", render: renderUpstreamDashboard },
  { file: "config/helm/values.schema.json", render: renderHelmValuesSchema },
  { file: "src/spec/openapi-one.json", render: () => renderDocument(false) },
  { file: "src/spec/openapi-several.json", render: () => renderDocument(true) },
  { file: RUNBOOKS, marker: "runbooks", render: renderRunbooks },
  { file: "docs/operations/log-events.md", marker: "log-events", render: renderLogEvents },
  { file: "docs/operations/metrics.md", marker: "metrics", render: renderMetricsTable },
  { file: "docs/errors.md", marker: "errors", render: renderErrorsTable },
  { file: "docs/configuration.md", marker: "first-keys", render: renderFirstKeys },
  ...(["registries", "listeners", "routing", "caching", "redis", "clients", "discovery", "process"] as const).map(
    (topic) => ({ file: "docs/configuration.md", marker: topic, render: () => renderTopic(topic) }),
  ),
  ...(
    ["seals", "redis-logins", "agreement", "contracts", "sources", "groups", "tuning", "client-caching"] as const
  ).map((topic) => ({ file: "docs/advanced.md", marker: topic, render: () => renderTopic(topic) })),
];
