import { Counter, Gauge, Histogram } from "@prometheus-io/client";
import { announce, LiveRegistry } from "./metrics/live-registry.ts";
import { Batches, type CounterChild, type HistogramChild } from "./metrics/batches.ts";
import type { CounterDefinition, Definition, GaugeDefinition, HistogramDefinition } from "./metrics/definition.ts";
import type { LabelSet, LabelValues } from "./metrics/labels.ts";
import { METRICS } from "./metrics/table.ts";

/** Labels, all of them, each with one of its values; nothing for a metric without labels. */
type Labelled<Labels extends LabelSet> = string extends keyof Labels ? [] : [labels: LabelValues<Labels>];

interface Value<Labels extends LabelSet> {
  readonly labels: LabelValues<Labels>;
  readonly value: number;
}

interface CounterMetric<Labels extends LabelSet> {
  inc(...args: [...Labelled<Labels>, amount?: number]): void;
  labels(labels: LabelValues<Labels>): CounterChild;
  get(): Promise<{ readonly values: readonly Value<Labels>[] }>;
}

interface GaugeMetric<Labels extends LabelSet> {
  set(...args: [...Labelled<Labels>, value: number]): void;
  get(): Promise<{ readonly values: readonly Value<Labels>[] }>;
  /** Forgets all values. */
  reset(): void;
}

/** What a histogram shows of one of its series: cumulative counts in its buckets, their sum and their number. */
type HistogramValue<Labels extends LabelSet> = Value<Labels> & { readonly metricName?: string };

interface HistogramMetric<Labels extends LabelSet> {
  labels(labels: LabelValues<Labels>): HistogramChild;
  /** With the trace of what was measured: of the histograms of {@link WITH_EXEMPLARS} alone, and where they are asked for. */
  observe(observation: {
    readonly labels: LabelValues<Labels>;
    readonly value: number;
    readonly exemplarLabels: { readonly trace_id: string };
  }): void;
  get(): Promise<{ readonly values: readonly HistogramValue<Labels>[] }>;
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
export type Metrics = { readonly [Key in keyof typeof METRICS]: Instrument<(typeof METRICS)[Key]> } & {
  /** For series that every request counts in. */
  readonly batches: Batches;
};

/** Latencies whose buckets name the trace of the last request or attempt that fell into them. */
const WITH_EXEMPLARS: ReadonlySet<string> = new Set([METRICS.requestDuration.name, METRICS.upstreamDuration.name]);

/** All metrics, registered in a registry of their own; with `exemplars` where requests are traced. */
export function createMetrics({ exemplars = false } = {}): { metrics: Metrics; registry: LiveRegistry } {
  const registry = new LiveRegistry({ openMetrics: exemplars });
  const batches = new Batches();
  const options = { registry, exemplars, collect: () => batches.flush() };
  const metrics = Object.fromEntries(
    Object.entries(METRICS).map(([key, definition]) => [key, createMetric(definition, options)]),
  ) as unknown as Metrics;
  announce(registry, undefined);
  return { metrics: { ...metrics, batches }, registry };
}

interface MetricOptions {
  readonly registry: LiveRegistry;
  readonly exemplars: boolean;
  /** Called before a metric is read. */
  readonly collect: () => void;
}

function createMetric(
  { name, help, labels, ...definition }: Definition,
  { registry, exemplars, collect }: MetricOptions,
): Counter | Gauge | Histogram {
  const options = { name, help, labelNames: Object.keys(labels), registers: [registry] };
  switch (definition.type) {
    case "counter":
      return new Counter({ ...options, collect });
    case "gauge":
      return new Gauge(options);
    case "histogram": {
      const enableExemplars = exemplars && WITH_EXEMPLARS.has(name);
      return new Histogram({ ...options, collect, buckets: [...definition.buckets], enableExemplars });
    }
  }
}
