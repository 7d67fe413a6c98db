import type { FastifyReply, FastifyRequest } from "fastify";
import { listRegistries, searchInstruments } from "../aggregate/catalogue.ts";
import type { Wait } from "../clock.ts";
import type { Registry } from "../registry/registry.ts";
import { basePathOf, MOST_COMPOSED, registriesOf, sendComposed } from "./aggregate.ts";
import { type AnswerParts, waitOf } from "./context.ts";
import { enter } from "./gate.ts";
import { formText, isPartial, queryValues } from "./query.ts";
import { namedUpstream } from "./route.ts";

/** `GET /catalog/v1/registries`: those that the client may see. */
export function answerRegistries(request: FastifyRequest, reply: FastifyReply, parts: AnswerParts): void {
  const composed = listRegistries(registriesOf(request), basePathOf(request), parts.clock);
  sendComposed(request, reply, composed, parts);
}

/** `GET /catalog/v1/instruments?query=&admin=&symbol=`: the instruments of all registries, or of one, that fit. */
export async function answerInstruments(
  request: FastifyRequest,
  reply: FastifyReply,
  parts: AnswerParts,
): Promise<void> {
  const { query = "", admin, symbol } = queryValues(request.url, ["query", "admin", "symbol"]);
  const wait = waitOf(request, MOST_COMPOSED, parts.clock);
  const selected = admin === undefined ? registriesOf(request) : await registryOf(request, formText(admin)!, wait);
  enter(request, parts);
  const search = {
    query: formText(query)!,
    symbol: symbol === undefined ? undefined : formText(symbol),
    isPartial: isPartial(request.url),
  };
  sendComposed(request, reply, await searchInstruments(selected, search, wait, parts.clock), parts);
}

/** The registry of an admin, as a list of one: by the rules by which a path names it. */
async function registryOf(request: FastifyRequest, admin: string, wait: Wait): Promise<Registry[]> {
  const upstream = await namedUpstream(request, { path: admin }, () => wait);
  return registriesOf(request).filter((registry) => registry.upstream === upstream);
}
