import type { CachePolicy } from "../cache/resource.ts";
import type { FetchRequest } from "../cache/resource.ts";
import { forwardedFields } from "../cache/rfc/forwarded.ts";
import { type Fields, filterFields } from "../fields.ts";
import { TRACE_FIELDS, traceFieldsOf } from "../trace-context.ts";

/**
 * What goes upstream on a cached route: our own `Accept`, tracing, the condition, and the client's fields that are part
 * of the cache key. Nothing else of a client may reach the upstream, or one client could decide what others get.
 */
export function requestFields(request: FetchRequest, policy: CachePolicy): Fields {
  const fields = filterFields(forwardedFields(policy, request.headers), (name) => !TRACE_FIELDS.has(name));
  const accept = fields.includes("accept") ? [] : ["accept", "application/json"];
  // A trace goes through, and takes no part in what the upstream answers.
  return [...accept, ...traceFieldsOf(request.headers), ...fields, ...request.conditional];
}
