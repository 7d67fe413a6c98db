import {
  combineFreshness,
  composeAnswer,
  type ComposedAnswer,
  type Composition,
} from "../aggregate/composed-answer.ts";
import { mergeInfo } from "../aggregate/merged-info.ts";
import { DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, MergedListing, type MergedPage } from "../aggregate/merged-listing.ts";
import type { ClientRequest } from "../aggregate/registries.ts";
import { findInstrument } from "../aggregate/single-instrument.ts";
import type { Tier } from "../clients/client.ts";
import { GatewayError } from "../errors.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import { endpointOf, endpointPath } from "../spec/endpoints.ts";
import { cachedRecord, type CachedOperation } from "../spec/operations.ts";
import { clientSignal, deadlineFromNow, deadlineWhenAsked, type RequestContext, type Snapshot } from "./context.ts";
import { maySee } from "./resolve-upstream.ts";
import { addressForm, parsePageQuery, queryPairs, type RegistryTarget } from "./target.ts";

/** Base URLs that an error text lists; the catalogue lists them all. */
const MAX_LISTED = 20;

/** Endpoints 1–3 on the plain base URL of several registries. */
export async function answerAggregate(context: RequestContext): Promise<ComposedAnswer> {
  const { clock } = context.services;
  const { query } = context.target as RegistryTarget;
  const { headers } = context.request;
  const partial = isPartial(query, context.snapshot.config.aggregate.partial);
  const asked: ClientRequest = {
    headers,
    deadlineOf: (partial ? deadlineWhenAsked : deadlineFromNow)(headers, clock),
    signal: clientSignal(context),
    isPartial: partial,
  };
  const composition = await compose(context, asked);
  const answer = composeAnswer(composition, headers, clock);
  context.outcome = answer.outcome;
  context.age = composition.freshness.age;
  context.windowUsed = composition.freshness.windowUsed;
  return answer;
}

/** The registries that the aggregate is made of, for a client of this tier. */
export function registriesOf({ registries, upstreams }: Snapshot, tier?: Tier): RegistryMetadata[] {
  return [...registries.values()].filter(({ upstream }) => !upstreams.isTwin(upstream) && maySee(tier, upstream));
}

/**
 * What distinguishes page tokens of one view from those of another: empty where everything is seen, so that a listing goes on
 * while registries come.
 */
export function viewOf(tier: Tier | undefined): string {
  return tier === undefined || tier.seesAll ? "" : JSON.stringify([...new Set(tier.config.upstreams)].toSorted());
}

/** The path below which one registry is served by itself. */
export function basePathOf({ config }: Snapshot, { upstream }: RegistryMetadata): string {
  return `${config.routing.prefix}/${upstream.name}`;
}

function compose(context: RequestContext, asked: ClientRequest): Promise<Composition> {
  const { endpoint, id, query } = context.target as RegistryTarget;
  const { aggregate } = cachedRecord(endpoint.operation as CachedOperation);
  switch (aggregate) {
    case "info":
      return composeInfo(context, asked);
    case "search":
      return composeInstrument(context, id!, asked);
    case "listing":
      return composePage(context, query, asked);
    case "refused":
      return Promise.reject(severalRegistries(context));
  }
}

async function composePage(
  { snapshot, client }: RequestContext,
  query: string,
  asked: ClientRequest,
): Promise<Composition> {
  const { pageSize = DEFAULT_PAGE_SIZE, pageToken } = parsePageQuery(query);
  const listing = new MergedListing(registriesOf(snapshot, client?.tier), viewOf(client?.tier));
  const page = await listing.page(Math.min(pageSize, MAX_PAGE_SIZE), pageToken || undefined, asked);
  return { text: pageText(page), freshness: combineFreshness(page.parts), missing: page.missing };
}

/** The body of a page of instruments. */
export function pageText({ instruments, nextPageToken }: Pick<MergedPage, "instruments" | "nextPageToken">): string {
  const next = nextPageToken === undefined ? "" : `,"nextPageToken":${JSON.stringify(nextPageToken)}`;
  return `{"instruments":[${instruments.join(",")}]${next}}`;
}

async function composeInstrument(
  { services, snapshot, client }: RequestContext,
  id: string,
  asked: ClientRequest,
): Promise<Composition> {
  const registries = registriesOf(snapshot, client?.tier);
  const { text, parts, missing } = await findInstrument(registries, id, {
    known: services.aggregation.catalogue.known(registries, id),
    request: asked,
    baseUrlOf: (registry) => basePathOf(snapshot, registry),
    isSearching: snapshot.upstreams.isSearching,
  });
  return { text, freshness: combineFreshness(parts), missing };
}

/** Wallets deal with the party that info names as `adminId`: only the operator can say which party that is. */
async function composeInfo(context: RequestContext, asked: ClientRequest): Promise<Composition> {
  const { snapshot, client } = context;
  const { adminId } = snapshot.config.aggregate;
  if (adminId === undefined) throw severalRegistries(context);
  const registries = registriesOf(snapshot, client?.tier);
  const { supportedApis, parts, missing } = await mergeInfo(registries, asked);
  return { text: JSON.stringify({ adminId, supportedApis }), freshness: combineFreshness(parts), missing };
}

/** The 400 for what only one registry can answer. */
function severalRegistries({ snapshot, client, target }: RequestContext): GatewayError {
  const registries = registriesOf(snapshot, client?.tier);
  const listed = registries.slice(0, MAX_LISTED).map((registry) => basePathOf(snapshot, registry));
  const more = registries.length > listed.length ? `, and ${registries.length - listed.length} more` : "";
  const { operation } = (target as RegistryTarget).endpoint;
  const path = endpointPath(endpointOf(operation), "ID").slice("/registry/".length);
  return new GatewayError(
    "admin_missing",
    `this base URL stands for several registries and has no admin of its own; the ${operation} of one registry is at ` +
      `${addressForm(snapshot.config.routing.prefix)}${path}; base URLs: ${listed.join(", ")}${more}`,
  );
}

/** @throws GatewayError 400 for a `partial` that is neither true nor false, or given twice */
function isPartial(query: string, byDefault: boolean): boolean {
  const values = [...queryPairs(query)].filter(([name]) => name === "partial").map(([, value]) => value);
  const [value = String(byDefault)] = values;
  if (values.length > 1 || (value !== "true" && value !== "false")) {
    throw new GatewayError("invalid_query", "partial must be true or false, once");
  }
  return value === "true";
}
