import type { IncomingMessage, ServerResponse } from "node:http";
import { composeAnswer, type ComposedAnswer, type Composition } from "../aggregate/composed-answer.ts";
import { combineFreshness } from "../aggregate/freshness.ts";
import { mergeInfo } from "../aggregate/merged-info.ts";
import { DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, MergedListing } from "../aggregate/merged-listing.ts";
import type { ClientAsk, Member } from "../aggregate/registries.ts";
import { findInstrument } from "../aggregate/single-instrument.ts";
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
  const ask: ClientAsk = {
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
export function membersOf({ upstreams, metadata }: Runtime): Member[] {
  return upstreams.all.map((upstream) => ({ upstream, metadata: metadata.get(upstream)! }));
}

/** The path below which one registry is to be had by itself. */
export function basePathOf({ config }: Runtime, { upstream }: Member): string {
  return `${config.routing.prefix}/${upstream.name}`;
}

function compose(
  surroundings: Surroundings,
  runtime: Runtime,
  { target, ask }: { readonly target: RegistryTarget; readonly ask: ClientAsk },
): Promise<Composition> {
  const { operation } = target.endpoint;
  if (operation === "info") return composeInfo(runtime, ask);
  if (operation === "instrument") return composeInstrument(surroundings, runtime, { id: target.id!, ask });
  return composePage(surroundings, runtime, { query: target.query, ask });
}

async function composePage(
  { aggregation }: Surroundings,
  runtime: Runtime,
  { query, ask }: { readonly query: string; readonly ask: ClientAsk },
): Promise<Composition> {
  const { pageSize = DEFAULT_PAGE_SIZE, pageToken } = parsePageQuery(query);
  const listing = new MergedListing(membersOf(runtime), aggregation.knowledge);
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
  { id, ask }: { readonly id: string; readonly ask: ClientAsk },
): Promise<Composition> {
  const members = membersOf(runtime);
  const { text, parts, missing } = await findInstrument(members, id, {
    known: aggregation.catalogue.known(members, id),
    ask,
    baseUrlOf: (member) => basePathOf(runtime, member),
  });
  return { text, freshness: combineFreshness(parts), missing };
}

/** Wallets take the `adminId` of info for a party they may deal with: it is the operator's to say who that is. */
async function composeInfo(runtime: Runtime, ask: ClientAsk): Promise<Composition> {
  const { adminId } = runtime.config.aggregate;
  const members = membersOf(runtime);
  if (adminId === undefined) {
    const listed = members.slice(0, MAX_LISTED).map((member) => basePathOf(runtime, member));
    const more = members.length > listed.length ? `, and ${members.length - listed.length} more` : "";
    throw new GatewayError(
      "admin_missing",
      "this base URL stands for several registries and has no admin of its own; the info of one registry is at " +
        `${addressForm(runtime.config.routing.prefix)}metadata/v1/info; base URLs: ${listed.join(", ")}${more}`,
    );
  }
  const { supportedApis, parts, missing } = await mergeInfo(members, ask);
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
