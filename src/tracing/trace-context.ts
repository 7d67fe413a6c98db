import { createTraceState, isSpanContextValid, type SpanContext } from "@opentelemetry/api";
import type { IncomingHttpHeaders } from "node:http";
import type { Fields } from "../fields.ts";

/** W3C Trace Context §3.2.2; of versions to come, what version 0 defines. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:$|-(?!.*,))/;

/** The client's place in a trace, if its headers name one. */
export function readTraceContext(headers: IncomingHttpHeaders): SpanContext | undefined {
  const { traceparent, tracestate } = headers;
  const match = typeof traceparent === "string" ? TRACEPARENT.exec(traceparent.trim()) : null;
  if (match === null) return undefined;
  const [whole, version, traceId, spanId, flags] = match;
  if (version === "00" && whole.length !== traceparent!.toString().trim().length) return undefined;
  const context: SpanContext = {
    traceId: traceId!,
    spanId: spanId!,
    traceFlags: Number.parseInt(flags!, 16) & 1,
    isRemote: true,
    ...(typeof tracestate === "string" ? { traceState: createTraceState(tracestate) } : {}),
  };
  return isSpanContextValid(context) ? context : undefined;
}

/** What tells the next one its place in the trace. */
export function traceFields({ traceId, spanId, traceFlags, traceState }: SpanContext): Fields {
  const fields = ["traceparent", `00-${traceId}-${spanId}-0${traceFlags & 1}`];
  const state = traceState?.serialize() ?? "";
  return state === "" ? fields : [...fields, "tracestate", state];
}
