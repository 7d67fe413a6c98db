import { hash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { type Fields, fieldValues, HOP_BY_HOP } from "../../fields.ts";
import type { CachePolicy } from "../resource.ts";
import { splitList } from "./cache-control.ts";

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
function isForwardable(policy: CachePolicy, name: string): boolean {
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

/** Lists with preferences: order within equal preference, case and exact weights make no difference. */
const PREFERENCES = new Set(["accept", "accept-charset", "accept-encoding", "accept-language"]);

/** The request fields named by `Vary` (RFC 9110 §12.5.5), lower case; `*` when it is among them. */
export function varyNames(fields: Fields): readonly string[] | "*" {
  const names = fieldValues(fields, "vary").flatMap(splitList);
  if (names.includes("*")) return "*";
  return [...new Set(names.map((name) => name.toLowerCase()))].sort();
}

/**
 * The request fields an entry is selected by (RFC 9111 §4.1). Only what reaches the upstream can make a difference:
 * fields listed in the policy always, and with `*` those that `Vary` names; `Authorization` where `Vary` names it.
 */
export function selectingNames(policy: CachePolicy, vary: readonly string[]): readonly string[] {
  const { forwardRequestHeaders: forwarded, sharedAuthorization } = policy;
  const listed =
    sharedAuthorization && forwarded !== "*" && vary.includes("authorization")
      ? [...forwarded, "authorization"]
      : forwarded;
  const names = listed === "*" ? vary : listed;
  if (names.length === 0) return names;
  return [...new Set(names.map((name) => name.toLowerCase()))].filter((name) => isForwardable(policy, name)).sort();
}

/** The normalised values of `names` in a request, as one string; an absent field matches only an absent one. */
export function variantOf(names: readonly string[], headers: IncomingHttpHeaders): string {
  let variant = "";
  for (const name of names) {
    const value = headers[name];
    variant += value === undefined ? `${name}\n` : `${name}:${normalise(name, value)}\n`;
  }
  return variant;
}

/** A value in the one form in which equal meanings are equal strings. */
function normalise(name: string, value: string | readonly string[]): string {
  const lines = typeof value === "string" ? [value] : value;
  // Variants are stored and shown: credentials do not belong there.
  if (name === "authorization") return hash("sha256", lines.join(), "base64url");
  const members = lines.flatMap(splitList);
  return PREFERENCES.has(name) ? byPreference(members) : members.join(",");
}

/** `de;q=0.5, EN` and `en, de;q=0.8` both prefer en to de: `en>de`. What is refused (`q=0`) stays apart. */
function byPreference(members: readonly string[]): string {
  const groups = new Map<number, string[]>();
  for (const member of members) {
    const parameters = member
      .toLowerCase()
      .split(";")
      .map((part) => part.trim());
    const weight = weightOf(parameters);
    const group = groups.get(weight);
    const rest = parameters.filter((part) => !part.startsWith("q=")).join(";");
    if (group === undefined) groups.set(weight, [rest]);
    else group.push(rest);
  }
  return [...groups]
    .sort(([a], [b]) => b - a)
    .map(([weight, group]) => (weight === 0 ? "!" : "") + group.sort().join(","))
    .join(">");
}

/** The `q` of one member (RFC 9110 §12.4.2); 1 when absent or malformed. */
export function weightOf(parameters: readonly string[]): number {
  const text = parameters.find((part) => part.startsWith("q="))?.slice(2);
  return text !== undefined && /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.test(text) ? Number(text) : 1;
}
