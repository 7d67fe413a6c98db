import type { IncomingHttpHeaders } from "node:http";
import { createTraceState, type SpanContext } from "@opentelemetry/api";
import { type Fields, traceFieldsOf } from "../../fields.ts";

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

/** What tells the next one its place in the trace. */
export function traceFields({ traceId, spanId, traceFlags, traceState }: SpanContext): Fields {
  const fields = ["traceparent", `00-${traceId}-${spanId}-0${traceFlags & 1}`];
  const state = traceState?.serialize() ?? "";
  return state === "" ? fields : [...fields, "tracestate", state];
}
