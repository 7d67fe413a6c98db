import { LRUCache } from "lru-cache";
import { parseList, serializeItem, serializeList, Token, type BareItem } from "structured-headers";
import { fieldValue, type Fields } from "../../fields.ts";

/** This cache's name in `Cache-Status`. */
const CACHE_NAME = new Token("registry-gateway");

/** Why a request went forward (RFC 9211 §2.2). */
export type ForwardReason = "bypass" | "request" | "uri-miss" | "vary-miss" | "stale";

/** How this cache handled one request (RFC 9211 §2). */
export interface CacheStatus {
  /** Undefined: answered without going forward, a `hit` (§2.1). */
  readonly forward?: ForwardReason | undefined;
  /** What the upstream answered, where that is not the status of the answer (§2.3). */
  readonly forwardStatus?: number | undefined;
  /** Remaining freshness in whole seconds; negative when stale (§2.4). */
  readonly ttl?: number | undefined;
  readonly stored?: boolean | undefined;
  readonly collapsed?: boolean | undefined;
  /** Why, in one token (§2.8). */
  readonly detail?: string | undefined;
}

/** Formatted hits, by ttl and detail: every hit in the shared tier needs one, and there are few. */
const hits = new LRUCache<string, string>({ max: 1_000 });

/** The list member of this cache. */
export function formatCacheStatus(status: CacheStatus): string {
  const { forward, forwardStatus, collapsed, ttl, detail } = status;
  if (forward !== undefined || forwardStatus !== undefined || collapsed === true) return serializeStatus(status);
  const name = `${ttl ?? ""} ${detail ?? ""}`;
  let text = hits.get(name);
  if (text === undefined) {
    text = serializeStatus({ ttl, detail });
    hits.set(name, text);
  }
  return text;
}

function serializeStatus(status: CacheStatus): string {
  const parameters = new Map<string, BareItem>();
  if (status.forward === undefined) parameters.set("hit", true);
  else parameters.set("fwd", new Token(status.forward));
  if (status.forwardStatus !== undefined) parameters.set("fwd-status", status.forwardStatus);
  if (status.ttl !== undefined) parameters.set("ttl", status.ttl);
  if (status.stored === true) parameters.set("stored", true);
  if (status.collapsed === true) parameters.set("collapsed", true);
  if (status.detail !== undefined) parameters.set("detail", new Token(status.detail));
  return serializeItem([CACHE_NAME, parameters]);
}

/**
 * What the caches between here and the origin wrote, in canonical form, for ours to be appended to (RFC 9211 §2);
 * undefined when there is nothing, or nothing that could be parsed together with ours.
 */
export function upstreamCacheStatus(fields: Fields): string | undefined {
  const value = fieldValue(fields, "cache-status");
  if (value === undefined) return undefined;
  try {
    return serializeList(parseList(value)) || undefined;
  } catch {
    return undefined;
  }
}
