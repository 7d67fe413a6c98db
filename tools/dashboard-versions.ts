import { type Endpoint, ENDPOINTS, isOfVersion2 } from "../src/spec/endpoints.ts";
import type { PanelSpec } from "./dashboard-panels.ts";
import { type Queries, sum } from "./promql.ts";

/** The operations of each version that clients choose between; metadata has one version. */
const OPERATIONS: Readonly<Record<"v1" | "v2", readonly Endpoint["operation"][]>> = {
  v1: operationsOf(false),
  v2: operationsOf(true),
};

function operationsOf(isVersion2: boolean): readonly Endpoint["operation"][] {
  return ENDPOINTS.filter(({ kind, operation }) => kind !== "metadata" && isOfVersion2(operation) === isVersion2).map(
    ({ operation }) => operation,
  );
}

/** Which version of the standard clients use, in all or, `by` upstream, at each registry. */
export function versionPanels(q: Queries, by: readonly "upstream"[] = []): readonly PanelSpec[] {
  const legend = by.map((label) => `{{${label}}} `).join("");
  const versions = Object.entries(OPERATIONS);
  return [
    {
      title: "Transfers and allocations by version",
      description: "Requests for factories and choice contexts, by version of the standard.",
      unit: "per second",
      queries: versions.map(([version, operation]) => ({
        expr: sum(by, q.rate("requests", { operation })),
        legend: `${legend}${version}`,
      })),
    },
  ];
}
