import type { Clock } from "../../clock.ts";
import type { Metrics } from "../../observe/metrics.ts";
import type { ReloadReport } from "../config-report.ts";
import type { DiscoveryReport } from "../../discovery/report.ts";
import type { ProcessStatus } from "../status.ts";
import { type Facts, READ_GAUGES, type ReadGauge } from "./condition.ts";
import type { ReplicaWatch } from "../replicas.ts";
import { type Health, HealthWatch } from "./health.ts";
import { RecentCounts } from "./recent-counts.ts";

interface HealthSources {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Brings up to date what is only counted when it is read. */
  readonly refresh: () => void;
  readonly status: () => ProcessStatus;
  readonly discovery: () => DiscoveryReport;
  readonly lastReload: () => ReloadReport | undefined;
  readonly operatorFaults: () => ReadonlyMap<string, string>;
  readonly replicas: Pick<ReplicaWatch, "settled" | "lost">;
}

/** How the gateway is, looked at on request and every thirty seconds: since when something is so is known then. */
export class HealthReport {
  private readonly sources: HealthSources;
  private readonly recent: RecentCounts;
  private readonly watch: HealthWatch;

  constructor(sources: HealthSources) {
    this.sources = sources;
    this.recent = new RecentCounts(sources.metrics, sources.clock);
    this.watch = new HealthWatch(sources.clock);
  }

  start(): void {
    this.recent.start(() => void this.look());
  }

  stop(): void {
    this.recent.stop();
  }

  async look(): Promise<Health> {
    const { clock, metrics, refresh, status, discovery, lastReload, operatorFaults, replicas } = this.sources;
    const replicaDifferences = replicas.settled();
    metrics.replicasDiffering.set(replicaDifferences.length);
    refresh();
    const gauges = await gaugesAbove0(metrics);
    await this.recent.refresh();
    return this.watch.look({
      ...status(),
      lastReload: lastReload(),
      discovery: discovery(),
      operatorFaults: operatorFaults(),
      replicaDifferences,
      replicasLost: replicas.lost(),
      gauges,
      recent: this.recent,
      wallNow: clock.wallNow(),
    });
  }
}

async function gaugesAbove0(metrics: Metrics): Promise<Facts["gauges"]> {
  const read = async (key: ReadGauge) => {
    const { values } = await metrics[key].get();
    return [key, values.filter(({ value }) => value > 0).map(({ labels }) => labels)] as const;
  };
  return Object.fromEntries(await Promise.all(READ_GAUGES.map(read))) as unknown as Facts["gauges"];
}
