import type { AsyncLocalStorage } from "node:async_hooks";
import type { IncomingHttpHeaders } from "node:http";
import {
  type Context,
  createTraceState,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from "@opentelemetry/api";
import type { Clock, Duration } from "../../clock.ts";
import { type Fields } from "../../fields.ts";
import { traceFieldsOf } from "../../trace-context.ts";
import type { AttemptTopic, AttemptTrace } from "../../upstream/observer.ts";
import type { Attributes, RequestSummary, RequestTrace } from "./tracing.ts";

export interface RequestSpanParts {
  readonly tracer: Tracer;
  readonly clock: Clock;
  readonly current: AsyncLocalStorage<RequestTrace>;
}

/** A request as a span, with its attempts and whatever else took time below it. */
export class RequestSpan implements RequestTrace {
  private readonly parts: RequestSpanParts;
  private readonly span: Span;
  private readonly context: Context;

  /** @param parent holds the client's span, if there is one */
  constructor(parts: RequestSpanParts, parent: Context, age: Duration) {
    this.parts = parts;
    const startTime = parts.clock.wallNow() - age;
    this.span = parts.tracer.startSpan("request", { kind: SpanKind.SERVER, startTime }, parent);
    this.context = trace.setSpan(parent, this.span);
  }

  get id(): string {
    return this.span.spanContext().traceId;
  }

  get isSampled(): boolean {
    return this.span.isRecording();
  }

  run<T>(work: () => T): T {
    return this.parts.current.run(this, work);
  }

  annotate(attributes: Attributes): void {
    this.span.setAttributes(attributes);
  }

  note(name: string, duration: Duration, attributes: Attributes): void {
    const endTime = this.parts.clock.wallNow();
    const span = this.parts.tracer.startSpan(name, { startTime: endTime - duration, attributes }, this.context);
    span.end(endTime);
  }

  attempt({ upstream, operation, method, node, kind }: AttemptTopic): AttemptTrace {
    const { tracer, clock } = this.parts;
    const attributes = {
      "http.request.method": method,
      "registry_gateway.operation": operation,
      "registry_gateway.upstream": upstream,
      "registry_gateway.node": node,
      "registry_gateway.attempt": kind,
    };
    const options = { kind: SpanKind.CLIENT, startTime: clock.wallNow(), attributes };
    const span = tracer.startSpan(`${method} ${operation}`, options, this.context);
    const spanContext = span.spanContext();
    return {
      fields: traceFields(spanContext),
      id: span.isRecording() ? spanContext.traceId : undefined,
      end({ outcome, reason, status }) {
        span.setAttribute("registry_gateway.outcome", outcome);
        if (status !== undefined) span.setAttribute("http.response.status_code", status);
        if (reason !== undefined) span.setAttribute("error.type", reason);
        if (outcome === "failure") span.setStatus({ code: SpanStatusCode.ERROR });
        span.end(clock.wallNow());
      },
    };
  }

  end({ requestId, method, operation, upstream, status, outcome, reason }: RequestSummary): void {
    const { span } = this;
    span.updateName(`${method} ${operation}`);
    span.setAttributes({
      "http.request.method": method,
      "http.response.status_code": status,
      "registry_gateway.operation": operation,
      "registry_gateway.upstream": upstream,
      "registry_gateway.outcome": outcome,
      "registry_gateway.request_id": requestId,
    });
    if (reason !== undefined) span.setAttribute("error.type", reason);
    if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(this.parts.clock.wallNow());
  }
}

/** The client's place in a trace, if its headers name one. */
export function readTraceContext(headers: IncomingHttpHeaders): SpanContext | undefined {
  const [, traceparent, , tracestate] = traceFieldsOf(headers);
  if (traceparent === undefined) return undefined;
  const [, traceId, spanId, flags] = traceparent.split("-");
  return {
    traceId: traceId!,
    spanId: spanId!,
    traceFlags: Number.parseInt(flags!, 16) & 1,
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  };
}

/** What says to the next one its place in the trace. */
export function traceFields({ traceId, spanId, traceFlags, traceState }: SpanContext): Fields {
  const fields = ["traceparent", `00-${traceId}-${spanId}-0${traceFlags & 1}`];
  const state = traceState?.serialize() ?? "";
  return state === "" ? fields : [...fields, "tracestate", state];
}
