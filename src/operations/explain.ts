import type { ExplainedEntry } from "../cache/types.ts";
import { GatewayError } from "../errors.ts";
import { printable, quote } from "../json.ts";
import type { MetadataRequest, RegistryExplanation } from "../registry/registry.ts";
import { pageQueryOf } from "../requests/query.ts";
import type { Snapshot } from "../requests/snapshot.ts";
import { addressingOf, checkPath, findExtraPath, pathOf, rewriteUrl, segmentsOf } from "../requests/url.ts";
import { type CachedOperation, endpointAt } from "../spec/operations.ts";
import type { UpstreamStatus } from "../upstream/types.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { ExplainAnswer } from "./types.ts";
import { sayDuration } from "./words.ts";

const CALL =
  "Factories and choice contexts depend on parties, holdings and the moment: each request is a call, and no answer is kept.";
const PASSED = "What is passed through is asked of the registry each time, and never kept.";
const UNPROVED = "The registry has not named its admin yet, under which entries are kept: nothing is stored.";

/**
 * Tells which registry a path of the public listener means, what is stored of it, and what becomes of the next request. Asks no
 * registry.
 *
 * @throws GatewayError as a request for the path would be refused, and 404 for what is no registry's path
 */
export async function explain(url: string, snapshot: Snapshot): Promise<ExplainAnswer> {
  const addressing = addressingOf(snapshot.loaded.config);
  const rewritten = rewriteUrl(url.replace(/^https?:\/\/[^/?#]*/i, ""), addressing);
  checkPath(rewritten);
  const extraAt = (method: string) => findExtraPath(addressing, pathOf(rewritten), method).found;
  const extra = extraAt("GET") ?? extraAt("POST");
  if (extra !== undefined) return passedThrough(named(extra.upstream, snapshot));
  const { name, rest } = split(pathOf(rewritten), addressing.prefix);
  const upstream = name === undefined ? plain(snapshot) : named(name, snapshot);
  const endpoint = endpointAt(rest);
  if (endpoint === undefined) return passedThrough(upstream);
  const about = { ...identityOf(upstream), operation: endpoint.operation };
  if (endpoint.record.kind !== "metadata") return { ...about, text: [CALL] };
  const request = requestOf(endpoint.operation as CachedOperation, rest, rewritten);
  const cache = await snapshot.registries.get(upstream.name)?.explain(request);
  if (cache === undefined) return { ...about, text: [UNPROVED] };
  return { ...about, text: textOf(cache, upstream.status()), cache };
}

/** The registry that the path names, and the segments behind `/registry`. */
function split(path: string, prefix: string): { readonly name: string | undefined; readonly rest: readonly string[] } {
  const isNamed = path.startsWith(`${prefix}/`);
  const segments = segmentsOf(isNamed ? path.slice(prefix.length) : path);
  const [first, ...rest] = isNamed ? segments.slice(1) : segments;
  if (first !== "registry") {
    throw new GatewayError("no_such_path", "explain takes a path with /registry/ in it, or one of extraPaths");
  }
  return { name: isNamed ? segments[0] : undefined, rest };
}

function named(name: string, { upstreams }: Snapshot): Upstream {
  const upstream = upstreams.byName(name) ?? upstreams.byAdmin(name);
  if (upstream !== undefined) return upstream;
  throw new GatewayError(
    "unknown_upstream",
    `no enabled upstream has the name or admin ${quote(name)}; see /status for them`,
  );
}

function plain({ upstreams, loaded }: Snapshot): Upstream {
  const { plain } = loaded.config.routing;
  const isName = plain !== "aggregate" && plain !== "off";
  const upstream = isName ? upstreams.byName(plain) : upstreams.sole;
  if (upstream !== undefined) return upstream;
  throw new GatewayError("admin_missing", "the path means several registries; explain the path of one of them");
}

function requestOf(operation: CachedOperation, segments: readonly string[], url: string): MetadataRequest {
  if (operation === "instruments") return { operation, ...pageQueryOf(url) };
  if (operation === "instrument") return { operation, id: segments.at(-1)! };
  return { operation };
}

function identityOf({ name, admin }: Upstream): Pick<ExplainAnswer, "upstream" | "admin"> {
  return { upstream: name, ...(admin !== undefined && { admin }) };
}

function passedThrough(upstream: Upstream): ExplainAnswer {
  return { ...identityOf(upstream), operation: "pass_through", text: [PASSED] };
}

/** Tells in sentences what becomes of the next request, and what is stored. */
function textOf(explanation: RegistryExplanation, { mode, state }: UpstreamStatus): string[] {
  const { entries, isFetching, retryIn } = explanation;
  const outlook = mode === "cache-only" ? cacheOnlyOutlook(explanation) : outlookOf(explanation);
  return [
    state === "disabled" ? "The next request is answered 503: the registry is disabled; see its status." : outlook,
    ...entries.map(entryText),
    ...(isFetching ? ["The registry is being asked now."] : []),
    ...(retryIn === undefined ? [] : [`The last fetch failed; the next try is in ${sayDuration(retryIn)}.`]),
  ];
}

function cacheOnlyOutlook(explanation: RegistryExplanation): string {
  const best = bestOf(explanation.entries, [...USES, "expired"]);
  if (explanation.listedFor !== undefined || best?.use === "fresh") return outlookOf(explanation);
  return best === undefined
    ? "The next request is answered 503: the registry is cache-only, and the cache has no answer to it."
    : `The next request is answered from ${placeOf(best)}, stale: the registry is cache-only.`;
}

function outlookOf({ entries, listedFor, retryIn }: RegistryExplanation): string {
  const best = bestOf(entries, USES);
  const isOwn = best?.use === "fresh" && best.tier === "memory" && best.status === 200;
  if (listedFor !== undefined && !isOwn) {
    return `The next request is answered from memory: the first page of instruments has it, for another ${sayDuration(listedFor)}.`;
  }
  if (best === undefined) {
    return `The next request asks the registry: ${entries.length === 0 ? "nothing is stored" : "what is stored is not used any more"}.`;
  }
  const from = `The next request is answered from ${placeOf(best)}`;
  if (best.use === "fresh") return `${from}, for another ${sayDuration(best.freshFor)}.`;
  if (best.use === "stale-while-revalidate") {
    return `${from}, stale, while the registry is asked; so for another ${sayDuration(best.refreshFor)}.`;
  }
  const until = `so for another ${sayDuration(best.errorFor)}`;
  if (retryIn !== undefined) return `${from}, stale, while the registry fails; ${until}.`;
  return `The next request asks the registry. If that fails, it is answered from ${placeOf(best)}, stale; ${until}.`;
}

/** Ways in which an entry may be used, the best first. */
const USES = ["fresh", "stale-while-revalidate", "stale-if-error"] as const satisfies readonly ExplainedEntry["use"][];

function bestOf(
  entries: readonly ExplainedEntry[],
  uses: readonly ExplainedEntry["use"][],
): ExplainedEntry | undefined {
  return uses.flatMap((use) => entries.filter((entry) => entry.use === use))[0];
}

function placeOf({ tier }: Pick<ExplainedEntry, "tier">): string {
  return tier === "memory" ? "memory" : "Redis";
}

const UNUSED = {
  expired: "too old to be used",
  purged: "purged",
  "earlier-listing": "of a listing that has changed since",
} as const;

function entryText({ tier, use, status, bytes, age, freshFor, cacheControl }: ExplainedEntry): string {
  const state = use in UNUSED ? UNUSED[use as keyof typeof UNUSED] : freshText(freshFor);
  const said =
    cacheControl === undefined ? "the registry sent no Cache-Control" : `Cache-Control: ${printable(cacheControl)}`;
  return `In ${placeOf({ tier })}: status ${status}, ${bytes} bytes, ${sayDuration(age)} old, ${state}; ${said}.`;
}

function freshText(freshFor: number): string {
  return freshFor > 0 ? `fresh for another ${sayDuration(freshFor)}` : `stale for ${sayDuration(-freshFor)}`;
}
