import { AsyncLocalStorage } from "node:async_hooks";
import { ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Clock, Duration } from "../../clock.ts";
import type { Logger } from "../log.ts";
import { whenChanged } from "../../recurrence.ts";
import { readTraceContext, RequestSpan, type RequestSpanParts } from "./request-span.ts";
import type { RequestTrace, Tracing } from "./tracing.ts";

export interface TracingOptions {
  /** Where traces go: OTLP over HTTP, as JSON. */
  readonly endpoint: string;
  /** Share of requests that are traced. */
  readonly ratio: number;
  readonly version: string;
  readonly clock: Clock;
  readonly log: Logger;
}

const EXPORT_TIMEOUT: Duration = 5_000;

/** Spans that wait to be sent; what comes beyond is dropped. */
const MAX_QUEUE = 4_096;

/** Traces requests and sends them to an OpenTelemetry collector. */
export function startTracing({ endpoint, ratio, version, clock, log }: TracingOptions): Tracing {
  const sampler = new TraceIdRatioBasedSampler(ratio);
  const exporter = new OTLPTraceExporter({ url: endpoint, timeoutMillis: EXPORT_TIMEOUT });
  const provider = new TracerProvider({
    // Nothing is detected: hosts and command lines are nobody's business.
    resource: resourceFromAttributes({ "service.name": "registry-gateway", "service.version": version }),
    // The share holds for traces that clients begin, too: strangers do not decide what is kept here.
    sampler: new ParentBasedSampler({ root: sampler, remoteParentSampled: sampler }),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new WatchedExporter(exporter, log),
        exportTimeoutMillis: EXPORT_TIMEOUT,
        maxQueueSize: MAX_QUEUE,
      }),
    ],
  });
  const current = new AsyncLocalStorage<RequestTrace>();
  const parts: RequestSpanParts = { tracer: provider.getTracer("registry-gateway", version), clock, current };
  return {
    begin(headers, age = 0) {
      const client = readTraceContext(headers);
      const parent = client === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, client);
      return new RequestSpan(parts, parent, age);
    },
    current: () => current.getStore(),
    close: () => provider.shutdown(),
  };
}

type Done = Parameters<SpanExporter["export"]>[1];

/** Sends spans through another exporter, and logs when that begins to fail and when it works again. */
export class WatchedExporter implements SpanExporter {
  private readonly exporter: SpanExporter;
  private readonly note: (isFailing: boolean) => void;

  constructor(exporter: SpanExporter, log: Logger) {
    this.exporter = exporter;
    this.note = whenChanged(false, (isFailing) => {
      if (isFailing) log.warn({}, "traces cannot be sent: the newest are kept, the others dropped");
      else log.info({}, "traces are sent again");
    });
  }

  export(spans: ReadableSpan[], done: Done): void {
    this.exporter.export(spans, (result) => {
      // Of an enumeration in a package that is not ours to name: 0 is success.
      const code: number = result.code;
      this.note(code !== 0);
      done(result);
    });
  }

  async forceFlush(): Promise<void> {
    await this.exporter.forceFlush?.();
  }

  shutdown(): Promise<void> {
    return this.exporter.shutdown();
  }
}
