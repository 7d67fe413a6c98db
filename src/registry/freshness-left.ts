import type { CacheAnswer } from "../cache/resource.ts";
import { fieldValues } from "../fields.ts";

/**
 * The freshness an answer of the cache has left, as its `Cache-Status` states it (RFC 9211 §2.4): whole seconds, negative
 * when stale, undefined for an answer that was not stored.
 */
export function freshnessLeft({ fields }: Pick<CacheAnswer, "fields">): number | undefined {
  const status = fieldValues(fields, "cache-status").at(-1);
  // The gateway's own member is the last one.
  const at = status === undefined ? -1 : status.lastIndexOf("registry-gateway;");
  const ttl = at === -1 ? null : /;\s*ttl=(-?[0-9]{1,10})/.exec(status!.slice(at));
  return ttl === null ? undefined : Number(ttl[1]);
}
