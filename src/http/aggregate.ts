import type { IncomingMessage, ServerResponse } from "node:http";
import {
  combineFreshness,
  composeAnswer,
  type ComposedAnswer,
  type Composition,
} from "../aggregate/composed-answer.ts";
import { mergeInfo } from "../aggregate/merged-info.ts";
import { DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, MergedListing } from "../aggregate/merged-listing.ts";
import type { ClientRequest } from "../aggregate/registries.ts";
import { findInstrument } from "../aggregate/single-instrument.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import { GatewayError } from "../errors.ts";
import { clientSignal } from "./client-signal.ts";
import { deadlineFromNow, deadlineWhenAsked } from "./request-timeout.ts";
import type { Exchange } from "./exchange.ts";
import type { Runtime, Surroundings } from "./context.ts";
import { addressForm, parsePageQuery, queryPairs, type RegistryTarget } from "./target.ts";

/** Base URLs that an error text lists; the catalogue lists them all. */
const MAX_LISTED = 20;

/** Endpoints 1–3 on the plain base URL of several registries. */
export async function answerAggregate(
  surroundings: Surroundings,
  exchange: Exchange,
  client: { readonly request: IncomingMessage; readonly response: ServerResponse },
): Promise<ComposedAnswer> {
  const { runtime } = exchange;
  const target = exchange.target as RegistryTarget;
  const { headers } = client.request;
  const partial = isPartial(target.query, runtime.config.aggregate.partial);
  const ask: ClientRequest = {
    headers,
    deadlineOf: (partial ? deadlineWhenAsked : deadlineFromNow)(headers, surroundings.clock),
    signal: clientSignal(client.response),
    isPartial: partial,
  };
  const composition = await compose(surroundings, runtime, { target, ask });
  const answer = composeAnswer(composition, headers, surroundings.clock);
  exchange.outcome = answer.outcome;
  exchange.age = composition.freshness.age;
  return answer;
}

/** The registries that the aggregate is made of. */
export function registriesOf({ upstreams, metadata }: Runtime): RegistryMetadata[] {
  return upstreams.all.map((upstream) => metadata.get(upstream)!);
}

/** The path below which one registry is to be had by itself. */
export function basePathOf({ config }: Runtime, { upstream }: RegistryMetadata): string {
  return `${config.routing.prefix}/${upstream.name}`;
}

function compose(
  surroundings: Surroundings,
  runtime: Runtime,
  { target, ask }: { readonly target: RegistryTarget; readonly ask: ClientRequest },
): Promise<Composition> {
  const { operation } = target.endpoint;
  if (operation === "info") return composeInfo(runtime, ask);
  if (operation === "instrument") return composeInstrument(surroundings, runtime, { id: target.id!, ask });
  return composePage(runtime, { query: target.query, ask });
}

async function composePage(
  runtime: Runtime,
  { query, ask }: { readonly query: string; readonly ask: ClientRequest },
): Promise<Composition> {
  const { pageSize = DEFAULT_PAGE_SIZE, pageToken } = parsePageQuery(query);
  const listing = new MergedListing(registriesOf(runtime));
  const page = await listing.page(Math.min(pageSize, MAX_PAGE_SIZE), pageToken || undefined, ask);
  const next = page.nextPageToken === undefined ? "" : `,"nextPageToken":${JSON.stringify(page.nextPageToken)}`;
  return {
    text: `{"instruments":[${page.instruments.join(",")}]${next}}`,
    freshness: combineFreshness(page.parts),
    missing: page.missing,
  };
}

async function composeInstrument(
  { aggregation }: Surroundings,
  runtime: Runtime,
  { id, ask }: { readonly id: string; readonly ask: ClientRequest },
): Promise<Composition> {
  const registries = registriesOf(runtime);
  const { text, parts, missing } = await findInstrument(registries, id, {
    known: aggregation.catalogue.known(registries, id),
    request: ask,
    baseUrlOf: (registry) => basePathOf(runtime, registry),
  });
  return { text, freshness: combineFreshness(parts), missing };
}

/** Wallets take the `adminId` of info for a party they may deal with: it is the operator's to say who that is. */
async function composeInfo(runtime: Runtime, ask: ClientRequest): Promise<Composition> {
  const { adminId } = runtime.config.aggregate;
  const registries = registriesOf(runtime);
  if (adminId === undefined) {
    const listed = registries.slice(0, MAX_LISTED).map((registry) => basePathOf(runtime, registry));
    const more = registries.length > listed.length ? `, and ${registries.length - listed.length} more` : "";
    throw new GatewayError(
      "admin_missing",
      "this base URL stands for several registries and has no admin of its own; the info of one registry is at " +
        `${addressForm(runtime.config.routing.prefix)}metadata/v1/info; base URLs: ${listed.join(", ")}${more}`,
    );
  }
  const { supportedApis, parts, missing } = await mergeInfo(registries, ask);
  return { text: JSON.stringify({ adminId, supportedApis }), freshness: combineFreshness(parts), missing };
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
