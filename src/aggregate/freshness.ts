import { parseDirectives, responseDirectives, type ResponseDirectives } from "../cache/rfc/cache-control.ts";
import { formatCacheStatus } from "../cache/rfc/cache-status.ts";
import type { CacheAnswer, CacheOutcome } from "../cache/resource.ts";
import { fieldValues } from "../fields.ts";
import { freshnessLeft } from "../registry/freshness-left.ts";

/** What several answers together say about the one that is made of them: each time the strictest. */
export interface Freshness {
  /** Whole seconds: the oldest part's. */
  readonly age: number;
  readonly outcome: CacheOutcome;
  readonly cacheControl: string;
  readonly cacheStatus: string;
}

/** From the one that asked least of anybody to the one that asked most. */
const OUTCOMES: readonly CacheOutcome[] = ["hit", "stale", "revalidated", "miss", "bypass"];

/** What is read of a part. */
export type Part = Pick<CacheAnswer, "fields" | "outcome" | "age">;

/** The freshness of an answer made of `parts`. */
export function combineFreshness(parts: readonly Part[]): Freshness {
  const age = parts.reduce((oldest, part) => Math.max(oldest, part.age), 0);
  const outcome = parts.reduce<CacheOutcome>(
    (most, part) => (OUTCOMES.indexOf(part.outcome) > OUTCOMES.indexOf(most) ? part.outcome : most),
    "hit",
  );
  const ttls = parts.map(freshnessLeft).filter((ttl) => ttl !== undefined);
  const forward = outcome === "hit" || outcome === "stale" ? undefined : FORWARDS[outcome];
  const ttl = ttls.length === 0 ? undefined : Math.min(...ttls);
  return {
    age,
    outcome,
    cacheControl: combineCacheControl(parts, age),
    cacheStatus: formatCacheStatus({ forward, ttl }),
  };
}

const FORWARDS = { revalidated: "stale", miss: "uri-miss", bypass: "bypass" } as const;

/** What clients and caches may do with it: what every part allows (RFC 9111 §5.2.2). */
function combineCacheControl(parts: readonly Part[], age: number): string {
  const all = parts.map((part) => ({ part, directives: directivesOf(part) }));
  const some = (is: (directives: ResponseDirectives) => boolean) => all.some(({ directives }) => is(directives));
  if (some(({ noStore }) => noStore)) return "no-store";
  const words: string[] = [];
  if (some((directives) => directives.private !== false)) words.push("private");
  // The oldest part's age is everybody's: a younger part may be kept for as long as it could be by itself.
  const left = all.map(({ part, directives: { maxAge } }) => (maxAge === undefined ? 0 : maxAge / 1000 - part.age));
  const least = left.length === 0 ? 0 : Math.min(...left);
  if (least <= 0 || some(({ noCache }) => noCache !== false)) words.push("no-cache");
  else words.push(`max-age=${age + Math.floor(least)}`);
  if (some(({ mustRevalidate }) => mustRevalidate)) words.push("must-revalidate");
  return words.join(", ");
}

function directivesOf({ fields }: Part): ResponseDirectives {
  return responseDirectives(parseDirectives(fieldValues(fields, "cache-control")));
}
