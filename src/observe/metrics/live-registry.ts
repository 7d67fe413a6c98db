import { Registry } from "@prometheus-io/client";

/** A registry that brings gauges up to date just before it is read. */
export class LiveRegistry extends Registry {
  private readonly refreshers: (() => void)[] = [];

  /** `refresh` sets gauges to what is so now. It runs at each scrape: keep it short. */
  onRead(refresh: () => void): void {
    this.refreshers.push(refresh);
  }

  override metrics(): Promise<string> {
    this.refresh();
    return super.metrics();
  }

  override getMetricsAsJSON(aggregator?: string): ReturnType<Registry["getMetricsAsJSON"]> {
    this.refresh();
    return aggregator === undefined ? super.getMetricsAsJSON() : super.getMetricsAsJSON(aggregator);
  }

  private refresh(): void {
    for (const refresh of this.refreshers) refresh();
  }
}
