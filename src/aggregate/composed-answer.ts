import type { IncomingHttpHeaders } from "node:http";
import { isNotModified, notModifiedFields } from "../cache/rfc/conditional.ts";
import { makeEntityTag } from "../cache/rfc/entity-tag.ts";
import type { CacheOutcome } from "../cache/resource.ts";
import type { Clock } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { Freshness } from "./freshness.ts";

/** An answer that the gateway put together, as the routes send it. */
export interface ComposedAnswer {
  readonly status: number;
  readonly fields: Fields;
  readonly body: Buffer | undefined;
  readonly outcome: CacheOutcome;
}

export interface Composition {
  readonly text: string;
  readonly freshness: Freshness;
  /** Names of the registries that are missing from it; such an answer is kept by nobody. */
  readonly missing: readonly string[];
}

/** Names the registries that an answer had to do without. */
export const PARTIAL_FIELD = "x-registry-partial";

/**
 * The answer with the fields of a cached route: `ETag` from its bytes, `Age` and `Cache-Control` of its parts, a 304
 * where the client has it already.
 */
export function composeAnswer(
  { text, freshness, missing }: Composition,
  headers: IncomingHttpHeaders,
  clock: Clock,
): ComposedAnswer {
  const body = Buffer.from(text);
  const etag = makeEntityTag(body);
  const wallNow = clock.wallNow();
  const { age, outcome, cacheControl, cacheStatus } = freshness;
  // Age says how long ago the answer was new (RFC 9111 §4.2.3): Date is that moment.
  const date = new Date(wallNow - age * 1000).toUTCString();
  const fields = [
    "content-type",
    "application/json",
    "date",
    date,
    "etag",
    etag,
    "age",
    String(age),
    "cache-control",
    missing.length > 0 ? "no-store" : cacheControl,
    "cache-status",
    cacheStatus,
  ];
  if (missing.length > 0) return { status: 200, fields: [...fields, PARTIAL_FIELD, missing.join(", ")], body, outcome };
  if (isNotModified(headers, { etag, lastModified: undefined, date }, wallNow)) {
    return { status: 304, fields: notModifiedFields(fields), body: undefined, outcome };
  }
  return { status: 200, fields, body, outcome };
}
