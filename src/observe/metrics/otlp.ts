import { type HrTime, ValueType } from "@opentelemetry/api";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { AggregationTemporality, type DataPoint, DataPointType, type MetricData } from "@opentelemetry/sdk-metrics";
import type { CancelTimer, Clock, Duration } from "../../clock.ts";
import { whenChanged } from "../../recurrence.ts";
import { histogramSeries } from "./histogram-series.ts";
import type { LiveRegistry } from "./live-registry.ts";
import type { PushOptions } from "./push.ts";

const EXPORT_TIMEOUT: Duration = 10_000;

/** What the client library shows of one metric. */
type Shown = Awaited<ReturnType<LiveRegistry["getMetricsAsJSON"]>>[number];

/** Sends the metrics of `registry` to an OpenTelemetry collector, under the names that `/metrics` has. */
export class OtlpPush {
  private readonly options: PushOptions;
  private readonly exporter: OTLPMetricExporter;
  private readonly resource;
  private readonly startTime: HrTime;
  private cancelTimer: CancelTimer | undefined;
  private readonly note: (isFailing: boolean) => void;
  private isClosed = false;

  constructor(options: PushOptions) {
    const { endpoint, version, instance, clock, log } = options;
    this.options = options;
    this.exporter = new OTLPMetricExporter({ url: endpoint, timeoutMillis: EXPORT_TIMEOUT });
    this.resource = resourceFromAttributes({
      "service.name": "registry-gateway",
      "service.version": version,
      "service.instance.id": instance,
    });
    this.startTime = instantOf(clock);
    this.note = whenChanged(false, (isFailing) => {
      if (isFailing) log.warn({}, "metrics cannot be sent");
      else log.info({}, "metrics are sent again");
    });
  }

  /** Sends at an interval, and never before the last sending has ended. */
  start(): void {
    const { clock, every } = this.options;
    if (this.isClosed) return;
    this.cancelTimer = clock.after(every, () => void this.send().finally(() => this.start()));
  }

  /** Sends the last figures and ends. */
  async close(): Promise<void> {
    this.isClosed = true;
    this.cancelTimer?.();
    await this.send();
    await this.exporter.shutdown();
  }

  private async send(): Promise<void> {
    const { registry, clock, version } = this.options;
    const times = { startTime: this.startTime, endTime: instantOf(clock) };
    registry.refresh();
    const shown = await registry.getMetricsAsJSON();
    const metrics = shown.map((metric) => dataOf(metric, times));
    const scope = { name: "registry-gateway", version };
    const resourceMetrics = { resource: this.resource, scopeMetrics: [{ scope, metrics }] };
    await new Promise<void>((resolve) => {
      this.exporter.export(resourceMetrics, (result) => {
        // Of an enumeration in a package that is not ours to name: 0 is success.
        const code: number = result.code;
        this.note(code !== 0);
        resolve();
      });
    });
  }
}

type Times = Pick<DataPoint<number>, "startTime" | "endTime">;

function dataOf({ name, help, type, values }: Shown, times: Times): MetricData {
  // Once it has written OpenMetrics, the library leaves the ending out.
  const fullName = type === "counter" && !name.endsWith("_total") ? `${name}_total` : name;
  const descriptor = { name: fullName, description: help, unit: unitOf(name), valueType: ValueType.DOUBLE };
  const base = { descriptor, aggregationTemporality: AggregationTemporality.CUMULATIVE };
  const point = <Value>(attributes: object, value: Value) => ({ ...times, attributes: { ...attributes }, value });
  if (type === "histogram") {
    const dataPoints = histogramSeries({ values }).map(({ labels, bounds, counts, count, sum }) =>
      point(labels, { buckets: { boundaries: [...bounds], counts: [...counts] }, count, sum }),
    );
    return { ...base, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }
  const dataPoints = values.map(({ labels, value }) => point(labels, value));
  if (type === "counter") return { ...base, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints };
  return { ...base, dataPointType: DataPointType.GAUGE, dataPoints };
}

function unitOf(name: string): string {
  if (/_seconds(_total)?$/.test(name)) return "s";
  return /_bytes(_total)?$/.test(name) ? "By" : "";
}

function instantOf(clock: Clock): HrTime {
  const now = clock.wallNow();
  return [Math.floor(now / 1_000), Math.round((now % 1_000) * 1e6)];
}
