import type { IncomingHttpHeaders } from "node:http";

/** Fields of a client's trace, in good form. */
type TraceFields =
  | readonly []
  | readonly ["traceparent", string]
  | readonly ["traceparent", string, "tracestate", string];

/** Names of the fields that carry a trace on (W3C Trace Context). */
export const TRACE_FIELDS: ReadonlySet<string> = new Set(["traceparent", "tracestate"]);

/** §3.2.2: version 0, and of versions to come what they have in common with it. */
const VERSION_0 = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const LATER_VERSION =
  /^(?!00|ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-+\--~]{1,200})?$/;

/** §3.3.1: the list and its members; what is longer need not be passed on. */
const MOST_STATE = 512;
const MOST_MEMBERS = 32;
const MEMBER = /^([a-z0-9][a-z0-9_*/@-]{0,255})=[ -+\--<>-~]{0,255}[!-+\--<>-~]$/;

/**
 * The `traceparent` and `tracestate` of a request as they may go on: none without a good `traceparent`, and of a
 * `tracestate` in bad form nothing. Registries and collectors parse what they are sent.
 */
export function traceFieldsOf({ traceparent, tracestate }: IncomingHttpHeaders): TraceFields {
  if (typeof traceparent !== "string" || !(VERSION_0.test(traceparent) || LATER_VERSION.test(traceparent))) return [];
  return typeof tracestate === "string" && isTraceState(tracestate)
    ? ["traceparent", traceparent, "tracestate", tracestate]
    : ["traceparent", traceparent];
}

/** Members may be empty, and no key comes twice. */
function isTraceState(text: string): boolean {
  if (text.length > MOST_STATE) return false;
  const members = text.split(",").map((member) => member.trim());
  const keys = members.filter((member) => member !== "").map((member) => MEMBER.exec(member)?.[1]);
  return (
    keys.length > 0 && keys.length <= MOST_MEMBERS && !keys.includes(undefined) && new Set(keys).size === keys.length
  );
}
