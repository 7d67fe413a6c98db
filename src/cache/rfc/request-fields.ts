import { hash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { type Fields, fieldValues, HOP_BY_HOP, nominatedFields } from "../../fields.ts";
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
  // Where a client is, the gateway says, if it is to be said.
  "forwarded",
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
  "via",
  "x-forwarded-for",
]);

/** Whether the request field `name` (lower case) can reach the upstream, and so can make a difference to the answer. */
function isForwardable(policy: CachePolicy, name: string): boolean {
  if (name === "authorization") return policy.sharedAuthorization;
  if (NEVER_FORWARDED.has(name)) return false;
  return policy.forwardRequestHeaders === "*" || policy.forwardRequestHeaders.some((n) => n.toLowerCase() === name);
}

/** Whether the client's Authorization goes upstream with such a request. */
export function isAuthorized({ sharedAuthorization }: CachePolicy, headers: IncomingHttpHeaders): boolean {
  return sharedAuthorization && headers.authorization !== undefined && !nominatedFields(headers).has("authorization");
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

/** Lists with preferences: their order and the case of their names make no difference. */
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

/**
 * The normalised values of `names` in a request, as one string; an absent field matches only an absent one. Absent is
 * what did not go upstream, too: a client that nominates a field gets the answer that was given without it.
 */
export function variantOf(names: readonly string[], headers: IncomingHttpHeaders): string {
  if (names.length === 0) return "";
  const nominated = nominatedFields(headers);
  let variant = "";
  for (const name of names) {
    // Registries name them: `constructor` is one that every object has.
    const value = Object.hasOwn(headers, name) && !nominated.has(name) ? headers[name] : undefined;
    variant += value === undefined ? `${name}\n` : `${name}${selectingText(name, value)}\n`;
  }
  return variant;
}

/** Characters of a value that is normalised; clients choose how long it is. */
const MOST_NORMALISED = 1024;

/** A value as a part of a variant. A longer one matches the very same text alone, as RFC 9111 §4.1 allows. */
function selectingText(name: string, value: string | readonly string[]): string {
  const text = typeof value === "string" ? value : value.join("\n");
  return text.length > MOST_NORMALISED ? `;${hash("sha256", text, "base64url")}` : `:${normalise(name, value)}`;
}

/** A value in the one form in which equal meanings are equal strings. */
function normalise(name: string, value: string | readonly string[]): string {
  const lines = typeof value === "string" ? [value] : value;
  // Variants are stored and shown: credentials do not belong there.
  if (name === "authorization") return hash("sha256", lines.join(), "base64url");
  const members = lines.flatMap(splitList);
  return PREFERENCES.has(name) ? byPreference(members) : members.join(",");
}

/**
 * `de;q=0.50, EN` and `en, de;q=0.5` are both `de;q=0.5,en`. Weights count: where the registry weighs what it has, too,
 * other weights can mean another answer.
 */
function byPreference(members: readonly string[]): string {
  return members.map(canonicalMember).sort().join(",");
}

/** Names are of any case, values of parameters are not; what is quoted is left as it is. */
function canonicalMember(member: string): string {
  if (member.includes('"')) return member;
  const [head, ...parameters] = member.split(";").map((part) => part.trim());
  const weights = parameters.filter(isWeight);
  // What a registry makes of these is its own business.
  if (weights.length > 1 || (weights.length === 1 && !WEIGHT.test(weights[0]!))) return member;
  const weight = weightOf(parameters);
  const others = parameters.filter((part) => !isWeight(part)).map((part) => part.replace(/^[^=]*/, lowerCase));
  return [lowerCase(head!), ...others, ...(weight === 1 ? [] : [`q=${weight}`])].join(";");
}

function lowerCase(text: string): string {
  return text.toLowerCase();
}

function isWeight(parameter: string): boolean {
  return /^q=/i.test(parameter);
}

/** RFC 9110 §12.4.2. */
const WEIGHT = /^q=(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/i;

/** The `q` of one member; 1 when absent or malformed. */
export function weightOf(parameters: readonly string[]): number {
  const weight = parameters.find(isWeight);
  return weight !== undefined && WEIGHT.test(weight) ? Number(weight.slice(2)) : 1;
}
