import { FAMILIES, type Family, PREFIX } from "../src/observe/metrics-table.ts";

/** The text of `docs/metrics.md`. */
export function metricsPage(): string {
  const rows = Object.entries<Family>(FAMILIES).map(([name, { type, labels, help }]) => {
    const named = labels.map((label) => `\`${label}\``).join(", ");
    return `| \`${name}\` | ${type} | ${named} | ${help} |`;
  });
  return [
    "# Metrics",
    "",
    `\`GET /metrics\` of the operations listener. Each name begins with \`${PREFIX}\`, which is left out here. Beside them are`,
    "Node's own (`process_…`, `nodejs_…`). Labels are bounded: they hold names of your configuration, operations and codes,",
    "never a party, a contract or an instrument. [rules.yaml](../config/prometheus/rules.yaml) has the alerts and",
    "[dashboard.json](../config/grafana/dashboard.json) the panels; [runbooks](runbooks.md) say what to do.",
    "",
    "| name | type | labels | says |",
    "|---|---|---|---|",
    ...rows,
    "",
  ].join("\n");
}
