import { setImmediate } from "node:timers/promises";
import { type OpenMetricsContentType, type PrometheusContentType, Registry } from "@prometheus-io/client";

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
