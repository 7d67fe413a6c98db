/** What a histogram counted under one set of labels. */
export interface HistogramSeries<Labels> {
  readonly labels: Labels;
  /** By bucket, not added up; the last one is of what is beyond all bounds. */
  readonly counts: readonly number[];
  /** Upper bounds of all buckets but the last. */
  readonly bounds: readonly number[];
  readonly count: number;
  readonly sum: number;
}

interface Shown<Labels> {
  readonly values: readonly { readonly labels: Labels; readonly value: number; readonly metricName?: string }[];
}

/** What a histogram's `get` shows, a line for each bucket, by its sets of labels. */
export function histogramSeries<Labels extends object>({ values }: Shown<Labels>): readonly HistogramSeries<Labels>[] {
  const series = new Map<string, { labels: Labels; shown: Map<number, number>; count: number; sum: number }>();
  for (const { labels, value, metricName = "" } of values) {
    const { le, ...own } = labels as Labels & { readonly le?: number | string };
    const key = Object.values(own).join("|");
    let known = series.get(key);
    if (known === undefined) series.set(key, (known = { labels: own as Labels, shown: new Map(), count: 0, sum: 0 }));
    if (metricName.endsWith("_sum")) known.sum = value;
    else if (metricName.endsWith("_count")) known.count = value;
    else known.shown.set(le === "+Inf" ? Infinity : Number(le), value);
  }
  return Array.from(series.values(), ({ shown, ...rest }) => {
    const sorted = [...shown].toSorted(([one], [other]) => one - other);
    const counts = sorted.map(([, count], bucket) => count - (sorted[bucket - 1]?.[1] ?? 0));
    return { ...rest, counts, bounds: sorted.slice(0, -1).map(([bound]) => bound) };
  });
}
