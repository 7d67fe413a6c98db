import type { IncomingHttpHeaders } from "node:http";
import type { CacheAnswer, CacheOutcome } from "../cache/resource.ts";
import {
  governingDirectives,
  parseDirectives,
  responseDirectives,
  type ResponseDirectives,
} from "../cache/rfc/cache-control.ts";
import { isNotModified, makeEntityTag, notModifiedFields } from "../cache/rfc/conditional.ts";
import { varyNames } from "../cache/rfc/request-fields.ts";
import { formatCacheStatus } from "../cache/rfc/reuse.ts";
import type { Clock, Duration } from "../clock.ts";
import { type Fields, fieldValues } from "../fields.ts";

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
  /** Names of the registries that are missing from it; no cache keeps such an answer. */
  readonly missing: readonly string[];
}

/** Names the registries that an answer had to do without. */
const PARTIAL_FIELD = "x-registry-partial";

/** Characters of their names: clients refuse answers whose fields are too long in all, many of them beyond 8 KiB. */
const MAX_PARTIAL = 2_000;

/** `bonds, amulet`, or as many names as fit and how many there are besides. */
function partialValue(missing: readonly string[]): string {
  const all = missing.join(", ");
  if (all.length <= MAX_PARTIAL) return all;
  const end = all.lastIndexOf(", ", MAX_PARTIAL);
  const named = end === -1 ? [] : all.slice(0, end).split(", ");
  return [...named, `and ${missing.length - named.length} more`].join(", ");
}

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
  const { age, outcome, cacheControl, cacheStatus, vary } = freshness;
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
    ...(vary === undefined ? [] : ["vary", vary]),
  ];
  if (missing.length > 0)
    return { status: 200, fields: [...fields, PARTIAL_FIELD, partialValue(missing)], body, outcome };
  // The oldest part's Date says nothing of when another one changed: its bytes alone tell whether the answer is another.
  if (isNotModified(headers, { etag, lastModified: undefined, date: undefined }, wallNow)) {
    return { status: 304, fields: notModifiedFields(fields), body: undefined, outcome };
  }
  return { status: 200, fields, body, outcome };
}

/** What several answers together say about the one that is made of them: each time the strictest. */
export interface Freshness {
  /** Whole seconds: the oldest part's. */
  readonly age: number;
  readonly outcome: CacheOutcome;
  readonly cacheControl: string;
  readonly cacheStatus: string;
  /** The request fields that any of them varies by; undefined: none. */
  readonly vary: string | undefined;
  /** As {@link CacheAnswer.windowUsed}, of the part that has used most; undefined: none stands in for a failure. */
  readonly windowUsed: number | undefined;
}

/** From the one that asked least of the registry to the one that asked most. */
const OUTCOMES: readonly CacheOutcome[] = ["hit", "stale", "revalidated", "miss", "bypass"];

/** What is read of a part. */
export type Part = Pick<CacheAnswer, "fields" | "outcome" | "age" | "ttl" | "windowUsed">;

/** The freshness of an answer made of `parts`. */
export function combineFreshness(parts: readonly Part[]): Freshness {
  const age = parts.reduce((oldest, part) => Math.max(oldest, part.age), 0);
  const outcome = parts.reduce<CacheOutcome>(
    (most, part) => (OUTCOMES.indexOf(part.outcome) > OUTCOMES.indexOf(most) ? part.outcome : most),
    "hit",
  );
  const ttls = parts.flatMap(({ ttl }) => ttl ?? []);
  const forward = outcome === "hit" || outcome === "stale" ? undefined : FORWARDS[outcome];
  const ttl = ttls.length === 0 ? undefined : Math.min(...ttls);
  return {
    age,
    outcome,
    cacheControl: combineCacheControl(parts, age),
    cacheStatus: formatCacheStatus({ forward, ttl }),
    vary: combineVary(parts),
    windowUsed: parts.reduce<number | undefined>(
      (most, { windowUsed }) => (windowUsed === undefined ? most : Math.max(most ?? 0, windowUsed)),
      undefined,
    ),
  };
}

const FORWARDS = { revalidated: "stale", miss: "uri-miss", bypass: "bypass" } as const;

function combineVary(parts: readonly Part[]): string | undefined {
  const names = varyNames(parts.flatMap(({ fields }) => fields));
  if (names === "*") return names;
  return names.length === 0 ? undefined : names.join(", ");
}

/** What clients and caches may do with it: what every part allows (RFC 9111 §5.2.2). */
function combineCacheControl(parts: readonly Part[], age: number): string {
  const all = parts.flatMap((part) => directivesOf(part).map((directives) => ({ part, directives })));
  const some = (is: (directives: ResponseDirectives) => boolean) => all.some(({ directives }) => is(directives));
  if (some(({ noStore }) => noStore)) return "no-store";
  const words: string[] = [];
  if (some((directives) => directives.private !== false)) words.push("private");
  // The oldest part's age is that of all: a younger part may be kept for as long as it could be by itself.
  const left = all.map(({ part, directives }) => lifetimeOf(directives) / 1000 - part.age);
  const least = left.length === 0 ? 0 : Math.min(...left);
  if (least <= 0 || some(({ noCache }) => noCache !== false)) words.push("no-cache");
  else words.push(`max-age=${age + Math.floor(least)}`);
  if (some(isBinding)) words.push("must-revalidate");
  return words.join(", ");
}

/** What a part says to all, and what it says to shared caches by themselves (RFC 9213), if it does. */
function directivesOf({ fields }: Part): ResponseDirectives[] {
  const forAll = responseDirectives(parseDirectives(fieldValues(fields, "cache-control")));
  const governing = governingDirectives(fields);
  return governing.field === "cache-control" ? [forAll] : [forAll, governing.directives];
}

/** The shorter one: the answer that is made of the parts says the same to all. */
function lifetimeOf({ maxAge, sMaxage }: ResponseDirectives): Duration {
  return maxAge === undefined ? 0 : Math.min(maxAge, sMaxage ?? Infinity);
}

/** Whether it is never used stale, if only by shared caches (RFC 9111 §5.2.2.8, §5.2.2.10). */
function isBinding({ mustRevalidate, proxyRevalidate, sMaxage }: ResponseDirectives): boolean {
  return mustRevalidate || proxyRevalidate || sMaxage !== undefined;
}
