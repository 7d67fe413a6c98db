import {
  AnnotationQueryBuilder,
  DashboardBuilder,
  DashboardCursorSync,
  DashboardLinkBuilder,
  DashboardLinkType,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  VariableRefresh,
  VariableSort,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { METRICS } from "../src/observe/metrics/table.ts";
import { buildPanel, type PanelSpec } from "./dashboard-panels.ts";
import { Queries } from "./promql.ts";

export interface DashboardRow {
  readonly title: string;
  readonly panels: readonly PanelSpec[];
}

export interface DashboardSpec {
  readonly uid: string;
  readonly title: string;
  readonly description: string;
  readonly rows: readonly DashboardRow[];
  /** Shows one upstream, or some, chosen by a variable. */
  readonly hasUpstream: boolean;
}

const DATASOURCE = { type: "prometheus", uid: "${datasource}" };
const TAG = "registry-gateway";

/** What panels of the overview select. */
export const EVERYTHING = new Queries(['job=~"$job"', 'instance=~"$instance"'], "$__rate_interval");

/** What panels of the drill-down select. */
export const CHOSEN_UPSTREAM = new Queries(
  ['job=~"$job"', 'instance=~"$instance"', 'upstream=~"$upstream"'],
  "$__rate_interval",
);

/** The dashboard as the JSON that Grafana loads. */
export function renderDashboard(spec: DashboardSpec): string {
  const builder = new DashboardBuilder(spec.title)
    .uid(spec.uid)
    .description(spec.description)
    .tags([TAG])
    .timezone("browser")
    .time({ from: "now-3h", to: "now" })
    .refresh("30s")
    .tooltip(DashboardCursorSync.Crosshair)
    .link(
      new DashboardLinkBuilder("Registry Gateway")
        .type(DashboardLinkType.Dashboards)
        .tags([TAG])
        .asDropdown(true)
        .includeVars(true)
        .keepTime(true),
    )
    .withVariable(new DatasourceVariableBuilder("datasource").label("Data source").type("prometheus"))
    .withVariable(labelVariable("job", `label_values(${METRICS.buildInfo.name}, job)`))
    .withVariable(labelVariable("instance", `label_values(${METRICS.buildInfo.name}{job=~"$job"}, instance)`))
    .annotation(annotation("Reloads", "blue", EVERYTHING.over("1m").increase("reloads")))
    .annotation(annotation("Purges", "orange", EVERYTHING.over("1m").increase("purges")));
  if (spec.hasUpstream) {
    const upstreams = `label_values(${METRICS.upstreamState.name}{job=~"$job"}, upstream)`;
    builder.withVariable(labelVariable("upstream", upstreams));
  }
  let id = 0;
  for (const { title, panels } of spec.rows) {
    builder.withRow(new RowBuilder(title).id(++id));
    for (const panel of panels) builder.withPanel(buildPanel(panel, ++id));
  }
  return `${JSON.stringify(builder.build(), undefined, 2)}\n`;
}

function labelVariable(name: string, query: string): QueryVariableBuilder {
  return new QueryVariableBuilder(name)
    .label(`${name[0]!.toUpperCase()}${name.slice(1)}`)
    .datasource(DATASOURCE)
    .query(query)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.AlphabeticalAsc)
    .multi(true)
    .includeAll(true)
    .allValue(".*")
    .current({ selected: true, text: "All", value: "$__all" });
}

function annotation(name: string, color: string, expr: string): AnnotationQueryBuilder {
  return new AnnotationQueryBuilder()
    .name(name)
    .datasource(DATASOURCE)
    .enable(true)
    .iconColor(color)
    .expr(`sum by (instance) (${expr}) > 0`)
    .step("60s")
    .titleFormat(name)
    .textFormat("{{instance}}");
}
