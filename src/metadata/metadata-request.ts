import type { CachePolicy } from "../cache/policy.ts";
import type { FetchRequest } from "../cache/resource.ts";
import { forwardedFields } from "../cache/forwarded.ts";
import type { Fields } from "../fields.ts";

/** Passed on so that a trace goes through; they take no part in what the upstream answers. */
const TRACING = ["traceparent", "tracestate"];

/**
 * What goes upstream on a cached route: our own `Accept`, tracing, the condition, and the client's fields that are part
 * of the cache key. Nothing else of a client may reach the upstream, or one client could decide what others get.
 */
export function requestFields(request: FetchRequest, policy: CachePolicy): Fields {
  const fields = forwardedFields(policy, request.headers);
  const own: string[] = fields.includes("accept") ? [] : ["accept", "application/json"];
  for (const name of TRACING) {
    const value = request.headers[name];
    if (typeof value === "string" && !fields.includes(name)) own.push(name, value);
  }
  return [...own, ...fields, ...request.conditional];
}
