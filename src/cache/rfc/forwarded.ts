import type { IncomingHttpHeaders } from "node:http";
import { HOP_BY_HOP } from "../../fields.ts";
import type { CachePolicy } from "../resource.ts";

/**
 * Request fields that never reach the upstream on cached routes, whatever is configured: hop-by-hop fields, what the
 * gateway sets itself (host, coding, framing), and what asks for part of a response or sets conditions on it, which the
 * cache answers.
 */
const NEVER_FORWARDED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  "accept-encoding",
  "cache-control",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "http2-settings",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
  "pragma",
  "proxy-authorization",
  "range",
]);

/** Whether the request field `name` (lower case) can reach the upstream, and so can make a difference to the answer. */
export function isForwardable(policy: CachePolicy, name: string): boolean {
  if (name === "authorization") return policy.sharedAuthorization;
  if (NEVER_FORWARDED.has(name)) return false;
  return policy.forwardRequestHeaders === "*" || policy.forwardRequestHeaders.some((n) => n.toLowerCase() === name);
}

/** Whether the client's Authorization goes upstream with such a request. */
export function isAuthorized({ sharedAuthorization }: CachePolicy, headers: IncomingHttpHeaders): boolean {
  return sharedAuthorization && headers.authorization !== undefined;
}

/**
 * The client's fields to send upstream for this policy, as a flat list of lower-case names and values. A caller that
 * sends them takes them from here, because exactly these are what an entry can vary by.
 */
export function forwardedFields(policy: CachePolicy, headers: IncomingHttpHeaders): string[] {
  const fields: string[] = [];
  const nominated = nominatedFields(headers);
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || nominated.has(name) || !isForwardable(policy, name)) continue;
    for (const line of typeof value === "string" ? [value] : value) fields.push(name, line);
  }
  return fields;
}

/** Fields that `Connection` makes hop-by-hop (RFC 9110 §7.6.1). */
function nominatedFields(headers: IncomingHttpHeaders): Set<string> {
  return new Set(
    headers.connection
      ?.toLowerCase()
      .split(",")
      .map((name) => name.trim()) ?? [],
  );
}
