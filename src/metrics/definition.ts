import { ALIAS_OR_NONE, type LabelSet, type NoLabels } from "./labels.ts";

/** How the replicas' and workers' values of a gauge become one. */
export type Aggregation = "sum" | "max" | "min" | "first";

interface Described<Labels extends LabelSet> {
  /** With prefix and unit. */
  readonly name: string;
  readonly help: string;
  readonly labels: Labels;
  /** Fewer series than all combinations of label values, where some cannot occur. */
  readonly series?: (upstreams: number) => number;
}

export interface CounterDefinition<Labels extends LabelSet> extends Described<Labels> {
  readonly type: "counter";
}

export interface GaugeDefinition<Labels extends LabelSet> extends Described<Labels> {
  readonly type: "gauge";
  readonly aggregation: Aggregation;
}

export interface HistogramDefinition<Labels extends LabelSet> extends Described<Labels> {
  readonly type: "histogram";
  readonly buckets: readonly number[];
}

export type Definition = CounterDefinition<LabelSet> | GaugeDefinition<LabelSet> | HistogramDefinition<LabelSet>;

/** Seconds, from a memory hit to the longest deadline. */
export const LATENCY = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 30, 60];

/** Seconds, from just stored to a day. */
export const AGE = [1, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 86_400];

const PREFIX = "registry_gateway_";

interface Details<Labels extends LabelSet> {
  readonly help: string;
  readonly labels?: Labels;
  readonly series?: (upstreams: number) => number;
}

/** Something that happens, counted: `name` without prefix and `_total`. */
export function counter<const Labels extends LabelSet = NoLabels>(
  name: string,
  { help, labels, series }: Details<Labels>,
): CounterDefinition<Labels> {
  return {
    type: "counter",
    name: `${PREFIX}${name}_total`,
    help,
    labels: labels ?? ({} as Labels),
    ...(series && { series }),
  };
}

/** Something that is so now. */
export function gauge<const Labels extends LabelSet = NoLabels>(
  name: string,
  { help, labels, series, aggregation = "sum" }: Details<Labels> & { readonly aggregation?: Aggregation },
): GaugeDefinition<Labels> {
  return {
    type: "gauge",
    name: `${PREFIX}${name}`,
    help,
    labels: labels ?? ({} as Labels),
    aggregation,
    ...(series && { series }),
  };
}

/** How something is distributed; in seconds, so the name ends in `_seconds`. */
export function histogram<const Labels extends LabelSet = NoLabels>(
  name: string,
  { help, labels, series, buckets = LATENCY }: Details<Labels> & { readonly buckets?: readonly number[] },
): HistogramDefinition<Labels> {
  return {
    type: "histogram",
    name: `${PREFIX}${name}_seconds`,
    help,
    labels: labels ?? ({} as Labels),
    buckets,
    ...(series && { series }),
  };
}

/** The most series that a metric has with so many upstreams. */
export function seriesOf(definition: Definition, upstreams: number): number {
  const combinations = Object.values(definition.labels).reduce(
    (product, values) =>
      product * (typeof values === "string" ? upstreams + (values === ALIAS_OR_NONE ? 1 : 0) : values.length),
    1,
  );
  const children = definition.series?.(upstreams) ?? combinations;
  return definition.type === "histogram" ? children * (definition.buckets.length + 3) : children;
}
