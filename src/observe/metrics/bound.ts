import { type LabelValues, type Metric, type MetricValueWithName, Registry } from "@prometheus-io/client";
import { expose } from "./exposition.ts";

type Labels = Readonly<Record<string, string>>;

const NO_LABELS: Labels = {};

/** What was observed under one set of labels. Observing costs a few comparisons and additions. */
export class Distribution {
  sum = 0;
  /** By bucket, not added up; the last one is of what is beyond all bounds. */
  readonly counts: number[];
  /** Upper bounds of the buckets, growing. */
  readonly bounds: readonly number[];

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

/** An amount that grows for the price of an addition. */
export class Tally {
  amount = 0;

  add(amount: number): void {
    this.amount += amount;
  }
}

interface BoundMetricOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly registry: Registry;
}

/**
 * A metric whose tallies, one for each set of labels, can be kept. The client library checks labels and looks them up for
 * everything that is counted, which cost an eighth of a memory hit; what it reads and exposes is the same.
 */
abstract class BoundMetric<Kept> {
  readonly name: string;
  protected abstract readonly type: "counter" | "histogram";
  private readonly options: BoundMetricOptions;
  private readonly tallies = new Map<string, { readonly labels: Labels; readonly tally: Kept }>();
  private readonly create: () => Kept;

  protected constructor(options: BoundMetricOptions, create: () => Kept) {
    this.name = options.name;
    this.options = options;
    this.create = create;
    // A metric without labels is there before its first event.
    if (options.labelNames.length === 0) this.tally(NO_LABELS);
    // All that a registry asks of a metric is its name and `get`; the type lists the library's own classes.
    options.registry.registerMetric(this as unknown as Metric);
  }

  /** The tally of these labels, which are all that the metric has. One that is kept spares the look-up. */
  tally(labels: Labels): Kept {
    const key = this.keyOf(labels);
    const known = this.tallies.get(key);
    if (known !== undefined) return known.tally;
    const { labelNames } = this.options;
    const names = Object.keys(labels);
    if (names.length !== labelNames.length || !names.every((name) => labelNames.includes(name))) {
      throw new TypeError(`${this.name} has the labels ${labelNames.join()}, not ${names.join()}`);
    }
    const tally = this.create();
    this.tallies.set(key, { labels, tally });
    return tally;
  }

  /** Every tally, with its labels. */
  all(): Iterable<{ readonly labels: Labels; readonly tally: Kept }> {
    return this.tallies.values();
  }

  /** Forgets the tallies whose labels match: nobody sees any more what is counted in them. */
  forget(isForgotten: (labels: Labels) => boolean): void {
    for (const [key, { labels }] of this.tallies) if (isForgotten(labels)) this.tallies.delete(key);
  }

  /** What a registry exposes. */
  get() {
    const { name, help } = this.options;
    const values = [...this.tallies.values()].flatMap(({ labels, tally }) => this.valuesOf(labels, tally));
    return Promise.resolve({ name, help, type: this.type, aggregator: "sum" as const, values });
  }

  protected abstract valuesOf(labels: Labels, tally: Kept): MetricValueWithName<string>[];

  private keyOf(labels: Labels): string {
    let key = "";
    for (const name of this.options.labelNames) key += `${labels[name]}|`;
    return key;
  }
}

/** A counter, see {@link BoundMetric}. */
export class BoundCounter extends BoundMetric<Tally> {
  protected readonly type = "counter";

  constructor(options: BoundMetricOptions) {
    super(options, () => new Tally());
  }

  /** Counts `amount`, or one, under labels where the metric has any: they come first. */
  inc(first: Labels | number = 1, amount = 1): void {
    if (typeof first === "number") this.tally(NO_LABELS).add(first);
    else this.tally(first).add(amount);
  }

  protected valuesOf(labels: Labels, { amount }: Tally): MetricValueWithName<string>[] {
    return [{ labels, value: amount }];
  }
}

interface BoundHistogramOptions extends BoundMetricOptions {
  /** Upper bounds of the buckets, growing. */
  readonly buckets: readonly number[];
}

/** A histogram, see {@link BoundMetric}. */
export class BoundHistogram extends BoundMetric<Distribution> {
  protected readonly type = "histogram";
  private readonly buckets: readonly number[];

  constructor({ buckets, ...options }: BoundHistogramOptions) {
    super(options, () => new Distribution(buckets));
    this.buckets = buckets;
  }

  /** Observes a value, under labels where the metric has any: they come first. */
  observe(first: Labels | number, value = 0): void {
    if (typeof first === "number") this.tally(NO_LABELS).observe(first);
    else this.tally(first).observe(value);
  }

  protected valuesOf(labels: Labels, { sum, counts }: Distribution): MetricValueWithName<string>[] {
    const { name, buckets } = this;
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

  private refresh(): void {
    for (const refresh of this.refreshers) refresh();
  }
}
