import type { FastifyReply, FastifyRequest } from "fastify";
import type { MetadataRequest, Registry, RegistryWait } from "../registry/registry.ts";
import type { CachedOperation } from "../spec/operations.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { answerAggregate } from "./aggregate.ts";
import { type AnswerParts, MOST_WAIT, waitOf } from "./context.ts";
import { enter } from "./gate.ts";
import { pageQueryOf } from "./query.ts";
import { sendFound } from "./reply.ts";
import { namedUpstream, plainUpstream } from "./route.ts";

/** Parameters of the routes of registries, decoded. */
export interface RegistryParams {
  /** A party id or an upstream's name; undefined on the plain base. */
  readonly admin?: string;
  /** An instrument's or contract's. */
  readonly id?: string;
}

/** Answers info, instruments and one instrument. A fresh hit is written without waiting: it returns no promise. */
export function answerMetadata(
  request: FastifyRequest,
  reply: FastifyReply,
  operation: CachedOperation,
  parts: AnswerParts,
): Promise<void> | undefined {
  request.state.operation = operation;
  const asked = metadataRequestOf(request, operation);
  const wait = (): RegistryWait => waitOf(request, MOST_WAIT, parts.clock);
  const named = namedUpstream(request, { path: (request.params as RegistryParams).admin }, wait);
  if (named instanceof Promise) return named.then((upstream) => answerBy(upstream));
  const upstream = named ?? plainUpstream(request);
  return upstream === undefined ? answerAggregate(request, reply, asked, parts) : answerBy(upstream);

  function answerBy(found: Upstream): Promise<void> | undefined {
    const { state } = request;
    const registry = state.snapshot.registries.get(found.name)!;
    state.upstream = found;
    const hit = registry.hit(asked);
    if (hit === undefined) return answerMiss(request, reply, { registry, asked, parts });
    sendFound(request, reply, hit, parts);
    return undefined;
  }
}

interface Miss {
  readonly registry: Registry;
  readonly asked: MetadataRequest;
  readonly parts: AnswerParts;
}

async function answerMiss(
  request: FastifyRequest,
  reply: FastifyReply,
  { registry, asked, parts }: Miss,
): Promise<void> {
  enter(request, parts);
  const found = await registry.get(asked, waitOf(request, registry.upstream.config.timeout, parts.clock));
  sendFound(request, reply, found, parts);
}

function metadataRequestOf({ url, params }: FastifyRequest, operation: CachedOperation): MetadataRequest {
  switch (operation) {
    case "instruments":
      return { operation, ...pageQueryOf(url) };
    case "instrument":
      return { operation, id: (params as RegistryParams).id! };
    default:
      return { operation };
  }
}
