import {
  MappingType,
  type Panel as GrafanaPanel,
  ThresholdsConfigBuilder,
  ThresholdsMode,
} from "@grafana/grafana-foundation-sdk/dashboard";
import type { Builder } from "@grafana/grafana-foundation-sdk/cog";
import {
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  SortOrder,
  TooltipDisplayMode,
  VizLegendOptionsBuilder,
  VizTooltipOptionsBuilder,
} from "@grafana/grafana-foundation-sdk/common";
import { DataqueryBuilder } from "@grafana/grafana-foundation-sdk/prometheus";
import { PanelBuilder as StatBuilder } from "@grafana/grafana-foundation-sdk/stat";
import { PanelBuilder as StateTimelineBuilder } from "@grafana/grafana-foundation-sdk/statetimeline";
import { PanelBuilder as TimeseriesBuilder } from "@grafana/grafana-foundation-sdk/timeseries";
import type { Definition } from "../src/observe/metrics/definition.ts";
import { type MetricKey, METRICS } from "../src/observe/metrics/table.ts";
import { type Panel, PANELS, type Unit } from "./panels.ts";
import { aggregate, type Queries, sum } from "./promql.ts";

/** One line, or one for each value of the labels in `legend` (`{{upstream}}`). */
interface Query {
  readonly expr: string;
  readonly legend: string;
}

/** A panel of a dashboard. */
export interface PanelSpec {
  readonly title: string;
  readonly description: string;
  readonly unit: Unit;
  readonly queries: readonly Query[];
  /** Columns of 24; 8 by default. */
  readonly width?: number;
  readonly kind?: "timeseries" | "stat" | "timeline";
  /** A stat or line turns yellow and red here; `below`: when it falls under them. */
  readonly thresholds?: { readonly yellow: number; readonly red: number; readonly below?: boolean };
  /** The texts that numbers stand for, in a timeline. */
  readonly states?: readonly { readonly value: number; readonly text: string; readonly color: string }[];
  readonly max?: number;
}

const UNITS: Readonly<Record<Unit, string>> = {
  "per second": "ops",
  bytes: "bytes",
  seconds: "s",
  age: "s",
  share: "percentunit",
  count: "short",
  state: "none",
};

const HEIGHT = 8;

/** The panels of single metrics. */
export function panelsOf(keys: readonly MetricKey[], queries: Queries): PanelSpec[] {
  return keys.flatMap((key) => {
    const panel = PANELS[key];
    return panel === "elsewhere"
      ? []
      : [
          {
            title: panel.title,
            description: METRICS[key].help,
            unit: panel.unit,
            queries: queriesOf(key, queries, panel),
          },
        ];
  });
}

function queriesOf(key: MetricKey, queries: Queries, { title, unit, by = [], replicas = "sum" }: Panel): Query[] {
  const { type }: Definition = METRICS[key];
  const labels = by.map((label) => `{{${label}}}`).join(" ");
  const legend = labels === "" ? title : labels;
  if (type === "counter") return [{ expr: sum(by, queries.rate(key)), legend }];
  if (type === "histogram") {
    return [0.5, 0.95, 0.99].map((quantile) => ({
      expr: queries.quantile(quantile, key, by),
      legend: `${labels} p${quantile * 100}`.trim(),
    }));
  }
  const value = aggregate(replicas, by, queries.series(key));
  // Instants are shown as how long ago they were.
  return [{ expr: unit === "age" ? `time() - ${value}` : value, legend }];
}

/** The panel as Grafana wants it; `id` is its own within the dashboard. */
export function buildPanel(spec: PanelSpec, id: number): Builder<GrafanaPanel> {
  const builder = decorate(builderOf(spec), spec).id(id);
  for (const [index, { expr, legend }] of spec.queries.entries()) {
    builder.withTarget(
      new DataqueryBuilder()
        .refId(String.fromCodePoint("A".codePointAt(0)! + index))
        .expr(expr)
        .legendFormat(legend),
    );
  }
  return builder;
}

type AnyBuilder = StatBuilder | StateTimelineBuilder | TimeseriesBuilder;

function builderOf({ kind = "timeseries", states }: PanelSpec): AnyBuilder {
  if (kind === "stat") return new StatBuilder().reduceOptions(new ReduceDataOptionsBuilder().calcs(["lastNotNull"]));
  const tooltip = new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi).sort(SortOrder.Descending);
  const legend = new VizLegendOptionsBuilder()
    .displayMode(LegendDisplayMode.List)
    .placement(LegendPlacement.Bottom)
    .showLegend(true);
  if (kind === "timeline") {
    const options = Object.fromEntries(
      (states ?? []).map(({ value, text, color }, index) => [String(value), { text, color, index }]),
    );
    return new StateTimelineBuilder()
      .tooltip(tooltip)
      .legend(legend)
      .mergeValues(true)
      .mappings([{ type: MappingType.ValueToText, options }]);
  }
  return new TimeseriesBuilder().tooltip(tooltip).legend(legend).fillOpacity(8).lineWidth(1);
}

function decorate(builder: AnyBuilder, spec: PanelSpec): AnyBuilder {
  builder
    .title(spec.title)
    .description(spec.description)
    .unit(UNITS[spec.unit])
    .datasource({ type: "prometheus", uid: "${datasource}" })
    .span(spec.width ?? 8)
    .height(spec.kind === "stat" ? HEIGHT / 2 : HEIGHT);
  if (spec.unit !== "age") builder.min(0);
  if (spec.max !== undefined) builder.max(spec.max);
  if (spec.thresholds !== undefined) builder.thresholds(thresholdsOf(spec.thresholds));
  return builder;
}

function thresholdsOf({ yellow, red, below = false }: NonNullable<PanelSpec["thresholds"]>): ThresholdsConfigBuilder {
  const steps = below
    ? [
        { value: null, color: "red" },
        { value: red, color: "yellow" },
        { value: yellow, color: "green" },
      ]
    : [
        { value: null, color: "green" },
        { value: yellow, color: "yellow" },
        { value: red, color: "red" },
      ];
  return new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps);
}
