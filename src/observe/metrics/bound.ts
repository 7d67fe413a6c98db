import {
  Counter,
  type CounterConfiguration,
  type LabelValues,
  type Metric,
  type MetricValueWithName,
  Registry,
} from "@prometheus-io/client";
import { expose } from "./exposition.ts";

type Labels = Readonly<Record<string, string>>;

/** What was observed under one set of labels. Observing costs a few comparisons and additions. */
export class Distribution {
  sum = 0;
  /** By bucket, not added up; the last one is of what is beyond all bounds. */
  readonly counts: number[];
  private readonly bounds: readonly number[];

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    const { bounds } = this;
    let bucket = 0;
    while (bucket < bounds.length && value > bounds[bucket]!) bucket += 1;
    this.counts[bucket]! += 1;
    this.sum += value;
  }
}

interface BoundHistogramOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  /** Upper bounds of the buckets, growing. */
  readonly buckets: readonly number[];
  readonly registry: Registry;
}

/**
 * A histogram whose children, each bound to its labels, can be kept. The client library looks a child up by its labels for every observation,
 * which cost an eighth of a memory hit; what it reads and exposes is the same.
 */
export class BoundHistogram {
  readonly name: string;
  private readonly options: BoundHistogramOptions;
  private readonly children = new Map<string, { readonly labels: Labels; readonly distribution: Distribution }>();

  constructor(options: BoundHistogramOptions) {
    this.name = options.name;
    this.options = options;
    // A histogram without labels is there before its first observation.
    if (options.labelNames.length === 0) this.tally({});
    // All that a registry asks of a metric is its name and `get`; the type lists the library's own classes.
    options.registry.registerMetric(this as unknown as Metric);
  }

  /** Observes `value`, under `labels` where the metric has any. */
  observe(...args: [value: number] | [labels: Labels, value: number]): void {
    if (args.length === 1) this.tally({}).observe(args[0]);
    else this.tally(args[0]).observe(args[1]);
  }

  /** The child with these labels. */
  tally(labels: Labels): Distribution {
    const key = this.keyOf(labels);
    const known = this.children.get(key);
    if (known !== undefined) return known.distribution;
    const distribution = new Distribution(this.options.buckets);
    this.children.set(key, { labels, distribution });
    return distribution;
  }

  /** Every child, with its labels. */
  all(): Iterable<{ readonly labels: Labels; readonly distribution: Distribution }> {
    return this.children.values();
  }

  /** Forgets the child with these labels. */
  remove(labels: Labels): void {
    this.children.delete(this.keyOf(labels));
  }

  /** What a registry exposes, and adds up with that of other processes. */
  get() {
    const { name, help } = this.options;
    const values = [...this.children.values()].flatMap((child) => this.valuesOf(child.labels, child.distribution));
    return Promise.resolve({ name, help, type: "histogram" as const, aggregator: "sum" as const, values });
  }

  private valuesOf(labels: Labels, { sum, counts }: Distribution): MetricValueWithName<string>[] {
    const { name, buckets } = this.options;
    const value = (suffix: string, amount: number, own: LabelValues<string> = {}) => ({
      metricName: `${name}_${suffix}`,
      labels: { ...own, ...labels },
      value: amount,
    });
    let count = 0;
    const cumulative = counts.map((amount, i) => {
      count += amount;
      return value("bucket", count, { le: buckets[i] ?? "+Inf" });
    });
    return [...cumulative, value("sum", sum), value("count", count)];
  }

  private keyOf(labels: Labels): string {
    let key = "";
    for (const name of this.options.labelNames) key += `${labels[name]}|`;
    return key;
  }
}

/** An amount that grows for the price of an addition. */
export class Tally {
  private pending = 0;

  add(amount: number): void {
    this.pending += amount;
  }

  /** What was added since the last time. */
  take(): number {
    const { pending } = this;
    this.pending = 0;
    return pending;
  }
}

/**
 * A counter whose children can be kept, for the hit path: finding a child by its labels costs more than the rest of a memory hit's bookkeeping, so
 * what is counted there gathers in tallies and moves into the counter when it is read.
 */
export class BoundCounter extends Counter<string> {
  private readonly tallies: { readonly labels: Readonly<Record<string, string>>; readonly tally: Tally }[] = [];

  constructor(configuration: CounterConfiguration<string>) {
    super({
      ...configuration,
      collect() {
        (this as BoundCounter).gather();
      },
    });
  }

  /** A new tally of the child with these labels. Take one for each set of labels and keep it. */
  tally(labels: Readonly<Record<string, string>>): Tally {
    const tally = new Tally();
    this.tallies.push({ labels, tally });
    return tally;
  }

  /** Lets go of the tallies whose labels match. */
  dropTallies(isDropped: (labels: Readonly<Record<string, string>>) => boolean): void {
    const kept = this.tallies.filter(({ labels }) => !isDropped(labels));
    this.tallies.splice(0, this.tallies.length, ...kept);
  }

  private gather(): void {
    for (const { labels, tally } of this.tallies) {
      const amount = tally.take();
      if (amount > 0) this.inc({ ...labels }, amount);
    }
  }
}

/** A registry that brings gauges up to date just before it is read. */
export class LiveRegistry extends Registry {
  private readonly refreshers: (() => void)[] = [];
  private last: Promise<void> = Promise.resolve();
  private next: Promise<string> | undefined;

  /** `refresh` sets gauges to what is so now. It runs at each scrape: keep it short. */
  onRead(refresh: () => void): void {
    this.refreshers.push(refresh);
  }

  /**
   * The exposition, of nothing earlier than now. One is written after the other, and one for all who ask meanwhile: it is
   * megabytes with hundreds of upstreams, and who may ask for it is not checked.
   */
  override metrics(): Promise<string> {
    if (this.next === undefined) {
      this.next = this.last.then(() => {
        this.next = undefined;
        this.refresh();
        return expose(this);
      });
      // Its end alone: the text is not to be kept.
      const ended = (): void => undefined;
      this.last = this.next.then(ended, ended);
    }
    return this.next;
  }

  override getMetricsAsJSON(aggregator?: string): ReturnType<Registry["getMetricsAsJSON"]> {
    this.refresh();
    return aggregator === undefined ? super.getMetricsAsJSON() : super.getMetricsAsJSON(aggregator);
  }

  private refresh(): void {
    for (const refresh of this.refreshers) refresh();
  }
}
