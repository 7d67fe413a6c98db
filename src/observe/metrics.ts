import { Gauge, type Registry } from "@prometheus-io/client";
import { announce } from "./metrics/announcement.ts";
import { BoundCounter, BoundHistogram, type Distribution, LiveRegistry, type Tally } from "./metrics/bound.ts";
import type { CounterDefinition, Definition, GaugeDefinition, HistogramDefinition } from "./metrics/definition.ts";
import type { LabelSet, LabelValues } from "./metrics/labels.ts";
import { METRICS } from "./metrics/table.ts";

/** Labels, all of them, each with one of its values; nothing for a metric without labels. */
type Labelled<Labels extends LabelSet> = string extends keyof Labels ? [] : [labels: LabelValues<Labels>];

/** What is counted under each set of labels. */
interface Tallies<Labels extends LabelSet, Kept> {
  /** A cheaper way to count the same again and again: kept, it spares the look-up. */
  tally(labels: LabelValues<Labels>): Kept;
  /** What was counted so far. */
  all(): Iterable<{ readonly labels: LabelValues<Labels>; readonly tally: Kept }>;
}

interface CounterMetric<Labels extends LabelSet> extends Tallies<Labels, Tally> {
  inc(...args: [...Labelled<Labels>, amount?: number]): void;
}

interface GaugeMetric<Labels extends LabelSet> {
  set(...args: [...Labelled<Labels>, value: number]): void;
  /** What it shows now. */
  get(): Promise<{ readonly values: readonly { readonly labels: LabelValues<Labels>; readonly value: number }[] }>;
  /** Forgets all values. */
  reset(): void;
}

interface HistogramMetric<Labels extends LabelSet> extends Tallies<Labels, Distribution> {
  observe(...args: [...Labelled<Labels>, value: number]): void;
}

type Instrument<D> =
  D extends CounterDefinition<infer Labels>
    ? CounterMetric<Labels>
    : D extends GaugeDefinition<infer Labels>
      ? GaugeMetric<Labels>
      : D extends HistogramDefinition<infer Labels>
        ? HistogramMetric<Labels>
        : never;

/** Every metric by its key in the table; a wrong label, or a wrong value of one, is a compile error. */
export type Metrics = { readonly [Key in keyof typeof METRICS]: Instrument<(typeof METRICS)[Key]> };

/** All metrics, registered in a registry of their own, with its exposition. */
export function createMetrics(): { metrics: Metrics; registry: LiveRegistry } {
  const registry = new LiveRegistry();
  const metrics = Object.fromEntries(
    Object.entries(METRICS).map(([key, definition]) => [key, createMetric(definition, registry)]),
  ) as unknown as Metrics;
  announce(registry, undefined);
  return { metrics, registry };
}

function createMetric(definition: Definition, registry: Registry): BoundCounter | Gauge | BoundHistogram {
  const { name, help, labels } = definition;
  const options = { name, help, labelNames: Object.keys(labels), registry };
  switch (definition.type) {
    case "counter":
      return new BoundCounter(options);
    case "gauge":
      return new Gauge({ ...options, registers: [registry] });
    case "histogram":
      return new BoundHistogram({ ...options, buckets: definition.buckets });
  }
}
