import { Registry } from "@prometheus-io/client";
import { expose } from "../observe/metrics/exposition.ts";
import { METRICS } from "../observe/metrics/table.ts";

/** Metrics of one process, as the client library gives them. */
export type MetricsSnapshot = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/** What the primary alone knows; workers have these metrics too, without meaning. */
const OF_THE_PRIMARY: ReadonlySet<string> = new Set(
  [
    METRICS.reloads,
    METRICS.lastReloadGood,
    METRICS.lastReloadTime,
    METRICS.purges,
    METRICS.workers,
    METRICS.workerEnds,
    METRICS.discoveryRegistries,
    METRICS.discoveryRuns,
    METRICS.discoverySourceSuccess,
    METRICS.discoveryPinFileUnusable,
    METRICS.buildInfo,
  ].map(({ name }) => name),
);

/** Both have a part of these. */
const OF_BOTH: ReadonlySet<string> = new Set([METRICS.cacheBytes, METRICS.cacheMaxBytes].map(({ name }) => name));

/** Metrics of the client library are about processes: those of all processes count. */
const OURS = "registry_gateway_";

/**
 * The metrics of primary and workers as those of one gateway. What workers counted before they ended goes on counting,
 * so that no counter ever falls.
 */
export class WorkerMetrics {
  private readonly own: Registry;
  private readonly latest = new Map<number, MetricsSnapshot>();
  /** The sum of what workers had counted that are gone. */
  private history: MetricsSnapshot = [];

  constructor(own: Registry) {
    this.own = own;
  }

  get contentType(): string {
    return this.own.contentType;
  }

  /** What a worker has counted up to now. */
  note(worker: number, snapshot: MetricsSnapshot): void {
    this.latest.set(
      worker,
      snapshot.filter(({ name }) => !OF_THE_PRIMARY.has(name)),
    );
  }

  /** The worker is gone. */
  async retire(worker: number): Promise<void> {
    const snapshot = this.latest.get(worker);
    this.latest.delete(worker);
    if (snapshot === undefined) return;
    const counted = snapshot.filter(({ type }) => isCounting(type));
    const sum = Registry.aggregate([this.history, counted]).getMetricsAsJSON();
    // Until it is there, a second worker that ends must not be added to the same history.
    this.history = [...this.history, ...counted];
    const before = this.history;
    const merged = await sum;
    if (this.history === before) this.history = merged;
  }

  /** Forgets what workers that are gone had counted about upstreams that are configured no more. */
  forgetUpstreams(kept: ReadonlySet<string>): void {
    this.history = this.history.map((metric) => ({
      ...metric,
      values: metric.values.filter(({ labels }) => {
        const upstream = (labels as Readonly<Record<string, string | number>>)["upstream"];
        return upstream === undefined || upstream === "none" || kept.has(String(upstream));
      }),
    }));
  }

  /** The exposition. */
  async metrics(): Promise<string> {
    const own = (await this.own.getMetricsAsJSON()).filter(
      ({ name }) => !name.startsWith(OURS) || OF_THE_PRIMARY.has(name) || OF_BOTH.has(name),
    );
    const sum = await Registry.aggregate([own, this.history, ...this.latest.values()]).getMetricsAsJSON();
    return expose(Registry.aggregate([withRoundSums(sum)]));
  }
}

/** A billionth is finer than anything measured here. */
const FRACTIONS = 1e9;

/** Once a worker is gone, its part is added in another place: a trace less in the sum would be taken for a restart. */
function withRoundSums(snapshot: MetricsSnapshot): MetricsSnapshot {
  return snapshot.map((metric) => {
    if (metric.type !== "histogram") return metric;
    const values = metric.values.map((each) => ({ ...each, value: Math.round(each.value * FRACTIONS) / FRACTIONS }));
    return { ...metric, values };
  });
}

function isCounting(type: MetricsSnapshot[number]["type"]): boolean {
  return type === "counter" || type === "histogram";
}
