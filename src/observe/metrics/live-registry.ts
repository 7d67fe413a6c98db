import { setImmediate } from "node:timers/promises";
import {
  Counter,
  type Histogram,
  type OpenMetricsContentType,
  type PrometheusContentType,
  Registry,
} from "@prometheus-io/client";
import { ALIAS, ALIAS_OR_NONE } from "./labels.ts";
import { METRICS } from "./table.ts";
import type { Definition } from "./definition.ts";

/**
 * The client library's registry, which brings gauges up to date just before it is read. It writes Prometheus' text format
 * 0.0.4, or OpenMetrics 1.0 where exemplars are to be shown, which the older format cannot.
 */
export class LiveRegistry extends Registry<PrometheusContentType | OpenMetricsContentType> {
  private readonly refreshers: (() => void)[] = [];
  private last: Promise<void> = Promise.resolve();
  private next: Promise<string> | undefined;

  constructor(options: { readonly openMetrics?: boolean } = {}) {
    super(options.openMetrics === true ? Registry.OPENMETRICS_CONTENT_TYPE : Registry.PROMETHEUS_CONTENT_TYPE);
  }

  /** `refresh` sets gauges to what is so now. It runs at each scrape: keep it short. */
  onRead(refresh: () => void): void {
    this.refreshers.push(refresh);
  }

  /** Sets the gauges to what is so now; {@link metrics} does it by itself. */
  refresh(): void {
    for (const refresh of this.refreshers) refresh();
  }

  /**
   * The exposition, of nothing earlier than now. One is written after the other, and one for all readers that ask
   * meanwhile: it is megabytes with hundreds of upstreams, and `/metrics` asks for no token.
   */
  override metrics(): Promise<string> {
    if (this.next === undefined) {
      this.next = this.last.then(() => {
        this.next = undefined;
        this.refresh();
        return this.contentType === Registry.OPENMETRICS_CONTENT_TYPE ? super.metrics() : this.write();
      });
      // Its end alone: the text is not to be kept.
      const ended = (): void => undefined;
      this.last = this.next.then(ended, ended);
    }
    return this.next;
  }

  /** One metric after the other, so that requests are answered in between. */
  private async write(): Promise<string> {
    const texts: string[] = [];
    for (const { name } of this.getMetricsAsArray()) {
      texts.push(await this.getSingleMetricAsString(name));
      await setImmediate();
    }
    return `${texts.join("\n\n")}\n`;
  }
}

/** Counters with more combinations than this begin with the first event. */
const MAX_COMBINATIONS = 24;

/**
 * Begins counters at 0, those of these upstreams or those of none: a counter that appears with its first event has
 * already lost it, for a rate needs something to rise from.
 */
export function announce(registry: Registry, upstreams: readonly string[] | undefined): void {
  for (const definition of Object.values<Definition>(METRICS)) {
    const metric = registry.getSingleMetric<string>(definition.name);
    if (!(metric instanceof Counter)) continue;
    const isAboutUpstreams = definition.labels["upstream"] !== undefined;
    if (isAboutUpstreams !== (upstreams !== undefined)) continue;
    const children = combinations(Object.entries(definition.labels), upstreams ?? []);
    if (children.length > MAX_COMBINATIONS * Math.max(1, upstreams?.length ?? 1)) continue;
    for (const labels of children) metric.inc(labels, 0);
  }
}

/**
 * Forgets the series of upstreams that are configured no more, so that reloads do not add to them for ever.
 *
 * @param kept the aliases of those that are
 */
export async function forgetUpstreams(registry: Registry, kept: ReadonlySet<string>): Promise<void> {
  for (const definition of Object.values<Definition>(METRICS)) {
    if (definition.labels["upstream"] === undefined) continue;
    const metric = registry.getSingleMetric<string>(definition.name) as Histogram<string>;
    const gone = new Map<string, object>();
    for (const { labels } of (await metric.get()).values) {
      // A histogram shows each of its series once a bucket.
      const { le: _bound, ...own } = labels;
      const { upstream } = own;
      if (upstream === undefined || upstream === "none" || kept.has(String(upstream))) continue;
      gone.set(JSON.stringify(own), own);
    }
    for (const labels of gone.values()) metric.remove(labels);
  }
}

type Pair = readonly [label: string, value: string];

/** All sets of labels that these values make. */
function combinations(
  labels: readonly (readonly [string, readonly string[] | string])[],
  aliases: readonly string[],
): Record<string, string>[] {
  let children: (readonly Pair[])[] = [[]];
  for (const [label, values] of labels) {
    const pairs = valuesOf(values, aliases).map((value): Pair => [label, value]);
    children = children.flatMap((child) => pairs.map((pair) => child.concat([pair])));
  }
  return children.map((child) => Object.fromEntries(child));
}

function valuesOf(values: readonly string[] | string, aliases: readonly string[]): readonly string[] {
  if (typeof values !== "string") return values;
  return values === ALIAS || values === ALIAS_OR_NONE ? aliases : [];
}
