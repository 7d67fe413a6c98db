import { type Static, Type } from "../schema/type.ts";
import { compile } from "../schema/validator.ts";
import { UsageError } from "./command-line.ts";
import { askGateway, type OperationsFlags } from "./operations-client.ts";
import { sayDuration, saySize } from "./quantity.ts";
import { terminalWidth, wrap } from "./table.ts";
import { printLine } from "./terminal.ts";

const Entry = Type.Object({
  tier: Type.String(),
  worker: Type.Optional(Type.Number()),
  purged: Type.Boolean(),
  status: Type.Number(),
  variant: Type.String(),
  etag: Type.Optional(Type.String()),
  bytes: Type.Number(),
  age: Type.Number(),
  lifetime: Type.Number(),
  freshFor: Type.Number(),
  revalidateFor: Type.Number(),
  usableFor: Type.Number(),
  origins: Type.Object({
    lifetime: Type.String(),
    staleWhileRevalidate: Type.String(),
    staleIfError: Type.String(),
  }),
});
type Entry = Static<typeof Entry>;

/** What is read of what `/explain` answers: an older or newer gateway may say less or more. */
const PathExplanation = Type.Object({
  upstream: Type.String(),
  admin: Type.Optional(Type.String()),
  operation: Type.String(),
  cached: Type.Boolean(),
  tiers: Type.Optional(Type.Array(Type.String())),
  reason: Type.Optional(Type.String()),
  explanation: Type.Optional(
    Type.Object({
      policy: Type.Object({ ttl: Type.Number(), notFoundTtl: Type.Optional(Type.Number()), maxTtl: Type.Number() }),
      epoch: Type.Optional(Type.String()),
      entries: Type.Array(Entry),
      lastSkip: Type.Optional(Type.Object({ reason: Type.String(), ago: Type.Number() })),
      fetching: Type.Boolean(),
    }),
  ),
});
type Explanation = NonNullable<Static<typeof PathExplanation>["explanation"]>;

const answerCheck = compile(PathExplanation);

/** `explain URL`: says what a running gateway has of a URL of its public listener, and would do with a request. */
export function explain(url: string, flags: OperationsFlags): Promise<number> {
  // A fragment never reaches a server.
  const path = url.replace(/^https?:\/\/[^/?#]*/i, "").replace(/#.*$/s, "");
  if (!path.startsWith("/")) throw new UsageError("explain takes a URL or a path of the gateway");
  return askGateway(flags, { path: `explain?path=${encodeURIComponent(path)}` }, (answer) => {
    if (!answerCheck.accepts(answer)) return false;
    for (const line of linesOf(answer)) for (const part of wrap(line, terminalWidth(), "    ")) printLine(part);
    return true;
  });
}

function linesOf(answer: Static<typeof PathExplanation>): string[] {
  const { upstream, admin, operation, tiers, reason, explanation } = answer;
  return [
    `registry: ${upstream}${admin === undefined ? "" : `, admin ${admin}`}`,
    `operation: ${operation}`,
    ...(tiers === undefined ? [] : [`clients of these tiers may ask: ${tiers.join(", ") || "none"}`]),
    "",
    ...(explanation === undefined
      ? [`Never answered from the cache: ${reason ?? "no reason given"}.`]
      : told(explanation)),
  ];
}

function told(explanation: Explanation): string[] {
  const { policy, entries, lastSkip, fetching } = explanation;
  const notFound = policy.notFoundTtl === undefined ? "" : `, a 404 for ${sayTtl(policy.notFoundTtl)}`;
  return [
    verdict(explanation),
    ...(fetching ? ["A fetch from the registry is running now."] : []),
    ...(lastSkip === undefined
      ? []
      : [`An answer was not stored ${sayDuration(lastSkip.ago)} ago: ${sayReason(lastSkip.reason)}.`]),
    `Where the registry does not say how long, an answer is fresh for ${sayTtl(policy.ttl)}${notFound}; never for more than ${sayDuration(policy.maxTtl)}.`,
    ...entries.flatMap((entry, i) => describe(entry, i + 1)),
  ];
}

function sayTtl(ttl: number): string {
  return ttl === 0 ? "0 s (not stored)" : sayDuration(ttl);
}

/** What becomes of the next request. */
function verdict({ epoch, entries }: Explanation): string {
  if (epoch === undefined) return "Never stored: no page that the gateway has issued this page token.";
  const usable = entries.filter(({ purged }) => !purged);
  if (usable.length === 0) {
    return `The next request asks the registry: ${entries.length === 0 ? "nothing is stored" : "what was stored is purged"}.`;
  }
  const best = usable.reduce((one, other) => (other.freshFor > one.freshFor ? other : one));
  const which =
    usable.length > 1 ? " The longest of them is meant; a request of another variant may do otherwise." : "";
  return `${outlook(best)}${which}`;
}

function outlook({ freshFor, revalidateFor, usableFor, tier }: Entry): string {
  const from = tier === "memory" ? "memory" : "Redis";
  if (freshFor > 0) return `The next request is answered from ${from}: fresh for another ${sayDuration(freshFor)}.`;
  if (revalidateFor > 0) {
    return `The next request is answered from ${from}, stale for ${sayDuration(freshFor)}, while the registry is asked in the background; so for another ${sayDuration(revalidateFor)}.`;
  }
  if (usableFor > 0) {
    return `The next request asks the registry. If that fails, it is answered from ${from}, stale for ${sayDuration(freshFor)}; so for another ${sayDuration(usableFor)}.`;
  }
  return "The next request asks the registry: what is stored is too old to be used, and only spares the transfer of a body that did not change.";
}

function describe(entry: Entry, number: number): string[] {
  const { tier, worker, purged, status, variant, etag, bytes, age, lifetime, freshFor, origins } = entry;
  const place = `${tier === "memory" ? "memory" : "Redis"}${worker === undefined ? "" : ` of worker ${worker}`}`;
  const lasts = freshFor > 0 ? `fresh for another ${sayDuration(freshFor)}` : `stale for ${sayDuration(freshFor)}`;
  return [
    "",
    `Entry ${number}, in ${place}${purged ? ", purged and never used again" : ""}: status ${status}, ${saySize(bytes)}${etag === undefined ? "" : `, ETag ${etag}`}`,
    ...(variant === "" ? [] : [`  variant: ${variant}`]),
    `  ${sayDuration(age)} old, ${lasts}; its time to live is ${sayDuration(lifetime)} by ${origins.lifetime}`,
    `  when stale: ${window(entry.revalidateFor - freshFor, "used while it is refreshed", origins.staleWhileRevalidate)}`,
    `  when the registry fails: ${window(entry.usableFor - freshFor, "used", origins.staleIfError)}`,
  ];
}

/** How long after expiry something is allowed, and who says so. */
function window(length: number, what: string, origin: string): string {
  return length > 0 ? `${what} for ${sayDuration(length)}, by ${origin}` : `not used, by ${origin}`;
}

/** In words; the rest says it by itself. */
const REASONS: Readonly<Record<string, string>> = {
  "no-store": "the registry says no-store",
  private: "the registry says private",
  vary: "it varies by everything (Vary: *)",
  authorization: "the request had credentials, and the registry does not allow to store its answer",
  status: "answers of its status are not stored",
  ttl: "neither the registry nor the configuration gives it a time to live",
  useless: "it was stale on arrival and could not be renewed",
  "unissued-token": "no page that the gateway has issued this page token",
  purged: "it was purged while it was fetched",
  superseded: "a newer one was stored meanwhile",
  failure: "it was a failure, and what is stored may still be used",
  "too-large": "it is larger than cache.memory.maxObject",
  unstorable: "its body is not what the standard says",
};

function sayReason(reason: string): string {
  return REASONS[reason] ?? reason;
}
