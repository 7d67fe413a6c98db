import type { FastifyReply, FastifyRequest } from "fastify";
import type { Composed } from "../aggregate/compose.ts";
import { findInstrument } from "../aggregate/instrument.ts";
import { mergedPage } from "../aggregate/merged-listing.ts";
import type { Duration } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { MetadataRequest, Registry } from "../registry/registry.ts";
import { cachedRecord } from "../spec/operations.ts";
import { type AnswerParts, waitOf } from "./context.ts";
import { enter } from "./gate.ts";
import { isPartial } from "./query.ts";
import { sendFound } from "./reply.ts";
import { adminNotNamed, baseUrls, mayUse } from "./route.ts";

/** The longest that a request to all registries takes; each of them has its own timeout besides. */
export const MOST_COMPOSED: Duration = 60_000;

/** Answers instruments and one instrument on the plain base of several registries; info is of one registry alone. */
export async function answerAggregate(
  request: FastifyRequest,
  reply: FastifyReply,
  asked: MetadataRequest,
  parts: AnswerParts,
): Promise<void> {
  const { state } = request;
  if (state.snapshot.loaded.config.routing.plain !== "aggregate") throw adminNotNamed(request, false);
  if (cachedRecord(asked.operation).aggregate === "refused") {
    throw new GatewayError(
      "admin_missing",
      `several registries are served here, and each has its own ${asked.operation}; use the base URL of one: ${baseUrls(state)}`,
    );
  }
  enter(request, parts);
  const wait = waitOf(request, MOST_COMPOSED, parts.clock);
  const query = { ...asked, isPartial: isPartial(request.url), basePathOf: basePathOf(request) };
  const registries = registriesOf(request);
  const composed = await ("id" in query
    ? findInstrument(registries, query, wait, parts.clock)
    : mergedPage(registries, query, wait, parts.clock));
  sendComposed(request, reply, composed, parts);
}

/** Sends what was made of several registries' answers; those that had to be left out are named. */
export function sendComposed(
  request: FastifyRequest,
  reply: FastifyReply,
  { found, missing }: Composed,
  { clock }: AnswerParts,
): void {
  const further = missing.length === 0 ? [] : ["x-registry-partial", missing.join(", ")];
  sendFound(request, reply, found, { clock, further });
}

/** The registries that the client may see, in order. */
export function registriesOf({ state }: FastifyRequest): Registry[] {
  const { upstreams, registries } = state.snapshot;
  return upstreams.all.filter((each) => mayUse(state.client, each)).map(({ name }) => registries.get(name)!);
}

/** The base URL of one registry, as a path: by its admin, where that is known and it is in use, else by its name. */
export function basePathOf({ state }: FastifyRequest): (registry: Registry) => string {
  const { prefix } = state.snapshot.loaded.config.routing;
  return ({ upstream }) => `${prefix}/${encodeURIComponent(upstream.admin ?? upstream.name)}`;
}
