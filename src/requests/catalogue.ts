import { isWhole, partOf } from "../aggregate/catalogue.ts";
import { notAllFound } from "../aggregate/contracts.ts";
import {
  combineFreshness,
  composeAnswer,
  type ComposedAnswer,
  type Composition,
} from "../aggregate/composed-answer.ts";
import { DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE } from "../aggregate/merged-listing.ts";
import type { Duration, Instant } from "../clock.ts";
import type { Tier } from "../clients/client.ts";
import { GatewayError } from "../errors.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import { basePathOf, pageText, registriesOf, viewOf } from "./aggregate.ts";
import { clientSignal, deadlineWithin, type RequestContext, type Snapshot } from "./context.ts";
import { checkMayUse, isAggregate } from "./resolve-upstream.ts";
import { type LocalTarget, parsePageQuery } from "./target.ts";

export const CATALOGUE_REGISTRIES = "/catalog/v1/registries";
export const CATALOGUE_INSTRUMENTS = "/catalog/v1/instruments";

/** Whether there is a catalogue: of several registries, or of those that are known while others may yet be found. */
export function hasCatalogue(snapshot: Snapshot): boolean {
  const { upstreams, config } = snapshot;
  return isAggregate(snapshot) || (upstreams.isSearching && config.routing.plain === "aggregate");
}

/** How long the first client waits for listings that no client has asked for in a while. */
export const FIRST_READ_WAIT = 5_000;

/** How long a search may take, with the wait for listings. */
const SEARCH_TIMEOUT: Duration = 10_000;

/** The catalogue of all registries and their instruments, from what was read in the background. */
export async function answerCatalogue(context: RequestContext): Promise<ComposedAnswer> {
  const { services, snapshot, client } = context;
  const { aggregation, backgroundReader, clock } = services;
  const { path, query } = context.target as LocalTarget;
  const parameters = readParameters(query, path === CATALOGUE_REGISTRIES ? NO_FILTERS : FILTERS);
  const deadline = deadlineWithin(SEARCH_TIMEOUT, context.request.headers, clock);
  const visible = registriesOf(snapshot, client?.tier);
  backgroundReader.wake(visible.filter((registry) => aggregation.catalogue.instrumentsOf(registry) === undefined));
  await backgroundReader.whenRead(visible, Math.min(deadline, clock.now() + FIRST_READ_WAIT));
  const composition =
    path === CATALOGUE_REGISTRIES
      ? listRegistries(context)
      : await listInstruments(context, { query, parameters, deadline });
  const answer = composeAnswer(composition, context.request.headers, clock);
  context.outcome = answer.outcome;
  return answer;
}

function listRegistries({ services, snapshot, client }: RequestContext): Composition {
  const { aggregation, clock } = services;
  const wallNow = clock.wallNow();
  const cutShort: string[] = [];
  const registries = registriesOf(snapshot, client?.tier).map((registry) => {
    const { upstream } = registry;
    const known = aggregation.catalogue.instrumentsOf(registry);
    if (known !== undefined && !isWhole(known)) cutShort.push(upstream.name);
    return {
      name: upstream.name,
      admin: upstream.usableAdmin ?? null,
      basePath: basePathOf(snapshot, registry),
      supportedApis: known?.supportedApis ?? null,
      health: upstream.state,
      instrumentCount: known?.texts.length ?? null,
      asOf: known === undefined ? null : new Date(wallNow - (clock.now() - known.listing.asOf)).toISOString(),
    };
  });
  return { text: JSON.stringify({ registries }), freshness: combineFreshness([]), missing: cutShort };
}

interface InstrumentsAsked {
  readonly query: string;
  readonly parameters: ReadonlyMap<string, string>;
  readonly deadline: Instant;
}

async function listInstruments(
  context: RequestContext,
  { query, parameters, deadline }: InstrumentsAsked,
): Promise<Composition> {
  const { services, snapshot, client } = context;
  const { aggregation, clock } = services;
  const { pageSize = DEFAULT_PAGE_SIZE, pageToken } = parsePageQuery(query);
  const page = await aggregation.search.page(
    selectRegistries(snapshot, client?.tier, parameters.get("admin")),
    {
      query: parameters.get("query") ?? "",
      symbol: parameters.get("symbol"),
      paused: readPaused(parameters.get("paused")),
      pageSize: Math.min(pageSize, MAX_PAGE_SIZE),
      pageToken: pageToken || undefined,
      view: viewOf(client?.tier),
    },
    { deadline, signal: clientSignal(context) },
  );
  const now = clock.now();
  return {
    text: pageText(page),
    freshness: combineFreshness(page.searched.map((known) => partOf(known, now))),
    missing: page.missing,
  };
}

/** @throws GatewayError 404 for an admin of no registry here, 503 for one that may yet be, 403 for one that the client may not see */
function selectRegistries(snapshot: Snapshot, tier: Tier | undefined, admin: string | undefined): RegistryMetadata[] {
  const registries = registriesOf(snapshot, tier);
  if (admin === undefined) return registries;
  const upstream = snapshot.upstreams.byName(admin) ?? snapshot.upstreams.byAdmin(admin);
  if (upstream !== undefined) checkMayUse(tier, upstream);
  const selected = registries.filter((registry) => registry.upstream === upstream);
  if (selected.length > 0) return selected;
  const { upstreams, config } = snapshot;
  if (upstreams.unlearned && admin !== config.aggregate.adminId) throw notAllFound("has that admin");
  throw new GatewayError("admin_unknown", "this gateway serves no registry of that admin; see /catalog/v1/registries");
}

/**
 * @throws GatewayError 400 for a parameter that is not one of `known`, given twice, or not percent-encoded UTF-8: a filter
 * that is not understood must not look as if it had been applied
 */
export function readParameters(query: string, known: readonly string[]): Map<string, string> {
  const parameters = new Map<string, string>();
  const unknown: string[] = [];
  for (const pair of query.split("&")) {
    if (pair === "") continue;
    const at = pair.indexOf("=");
    const name = decode(at === -1 ? pair : pair.slice(0, at));
    const value = at === -1 ? "" : decode(pair.slice(at + 1));
    if (name === undefined || !known.includes(name)) unknown.push(name ?? pair);
    else if (value === undefined) throw new GatewayError("invalid_query", `${name} is not percent-encoded UTF-8`);
    else if (parameters.has(name)) throw new GatewayError("invalid_query", `${name} is given twice`);
    else parameters.set(name, value);
  }
  if (unknown.length > 0) throw unknownParameters(unknown, known);
  return parameters;
}

/** @throws GatewayError 400 for anything but true and false */
function readPaused(value: string | undefined): boolean | undefined {
  if (value === undefined) return undefined;
  if (value !== "true" && value !== "false") throw new GatewayError("invalid_query", "paused must be true or false");
  return value === "true";
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

function unknownParameters(unknown: readonly string[], known: readonly string[]): GatewayError {
  const named = unknown.slice(0, MAX_NAMED).map((name) => JSON.stringify(name.slice(0, MAX_NAME)));
  const more = unknown.length > named.length ? ` and ${unknown.length - named.length} more` : "";
  const takes = known.length === 0 ? "takes no query parameters" : `takes ${known.join(", ")}`;
  return new GatewayError("invalid_query", `unknown query parameters: ${named.join(", ")}${more}; this path ${takes}`);
}

/** Characters of a client's text that are repeated to it. */
const MAX_NAMED = 5;
const MAX_NAME = 50;

const FILTERS = ["query", "admin", "symbol", "paused", "pageSize", "pageToken"];
const NO_FILTERS: readonly string[] = [];
