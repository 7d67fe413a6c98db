import type { LabelSet, NoLabels } from "./labels.ts";

/**
 * What sets a metric back. `restart`: the process's end alone · `removal`: a reload that takes the upstream away, too ·
 * `reading`: it is set anew whenever it is read, and shows nothing that is no more.
 */
export type Reset = "restart" | "removal" | "reading";

interface Details<Labels extends LabelSet> {
  readonly help: string;
  readonly labels?: Labels;
}

interface Described<Labels extends LabelSet> {
  /** With prefix and unit. */
  readonly name: string;
  readonly help: string;
  readonly labels: Labels;
  readonly resetBy: Reset;
}

export interface CounterDefinition<Labels extends LabelSet> extends Described<Labels> {
  readonly type: "counter";
}

export interface GaugeDefinition<Labels extends LabelSet> extends Described<Labels> {
  readonly type: "gauge";
}

export interface HistogramDefinition<Labels extends LabelSet> extends Described<Labels> {
  readonly type: "histogram";
  readonly buckets: readonly number[];
}

export type Definition = CounterDefinition<LabelSet> | GaugeDefinition<LabelSet> | HistogramDefinition<LabelSet>;

/** Seconds, from a memory hit to the longest deadline. */
const LATENCY = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.35, 0.5, 0.7, 1, 2.5, 5, 15, 30, 60];

/** Seconds, from just stored to a day. */
export const AGE = [
  1, 5, 10, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 64_800, 86_400,
];

const PREFIX = "registry_gateway_";

/** Something that happens, counted: `name` without prefix and `_total`. */
export function counter<const Labels extends LabelSet = NoLabels>(
  name: string,
  details: Details<Labels>,
): CounterDefinition<Labels> {
  return { type: "counter", name: `${PREFIX}${name}_total`, ...described(details) };
}

/** Something that is so now. */
export function gauge<const Labels extends LabelSet = NoLabels>(
  name: string,
  details: GaugeDetails<Labels>,
): GaugeDefinition<Labels> {
  return { type: "gauge", name: PREFIX + name, ...described(details) };
}

interface GaugeDetails<Labels extends LabelSet> extends Details<Labels> {
  readonly resetBy?: "reading";
}

/** How something is distributed, in seconds if nothing else is said: `name` without prefix and unit. */
export function histogram<const Labels extends LabelSet = NoLabels>(
  name: string,
  { buckets = LATENCY, unit = "seconds", ...details }: HistogramDetails<Labels>,
): HistogramDefinition<Labels> {
  return { type: "histogram", name: `${PREFIX}${name}_${unit}`, buckets, ...described(details) };
}

interface HistogramDetails<Labels extends LabelSet> extends Details<Labels> {
  readonly buckets?: readonly number[];
  readonly unit?: "seconds" | "ratio";
}

function described<Labels extends LabelSet>(details: Details<Labels>) {
  const labels = details.labels ?? ({} as Labels);
  const resetBy: Reset = "upstream" in labels ? "removal" : "restart";
  return { resetBy, ...details, labels };
}
