import type { IncomingMessage, ServerResponse } from "node:http";
import { answerCatalogue, CATALOGUE_INSTRUMENTS, CATALOGUE_REGISTRIES } from "./catalogue.ts";
import type { Exchange } from "./exchange.ts";
import { DOCS, HOME, OPENAPI } from "./home.ts";
import { answerPage } from "./pages.ts";
import { isAggregate } from "./plain.ts";
import type { Runtime, Surroundings } from "./context.ts";
import type { Answer } from "./send.ts";
import type { LocalTarget } from "./target.ts";

const CATALOGUE = new Set([CATALOGUE_REGISTRIES, CATALOGUE_INSTRUMENTS]);
const DESCRIPTIONS = new Set([OPENAPI, DOCS]);

/** Whether the gateway itself has something at `path`. */
export function isLocalPage(path: string, runtime: Runtime): boolean {
  if (path === HOME) return true;
  return (CATALOGUE.has(path) && isAggregate(runtime)) || (DESCRIPTIONS.has(path) && runtime.config.docs);
}

/** The gateway's own pages: the catalogue, the description of the API, and what names both. */
export function answerLocal(
  surroundings: Surroundings,
  exchange: Exchange,
  client: { readonly request: IncomingMessage; readonly response: ServerResponse },
): Promise<Answer> {
  const { path } = exchange.target as LocalTarget;
  return CATALOGUE.has(path)
    ? answerCatalogue(surroundings, exchange, client)
    : answerPage(surroundings, exchange, client.request);
}
