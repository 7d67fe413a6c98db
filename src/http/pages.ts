import type { IncomingMessage } from "node:http";
import { isNotModified, notModifiedFields } from "../cache/rfc/conditional.ts";
import { makeEntityTag } from "../cache/rfc/entity-tag.ts";
import { describeApi } from "../spec/openapi.ts";
import { qualityOf } from "./accept.ts";
import { renderDocs } from "./docs-page.ts";
import type { Exchange } from "./exchange.ts";
import { describeHome, DOCS, HOME, OPENAPI, renderHome } from "./home.ts";
import { type HtmlPage, pageFields } from "./html.ts";
import { isAggregate } from "./plain.ts";
import type { Runtime, Surroundings } from "./context.ts";
import type { Answer } from "./send.ts";
import type { LocalTarget } from "./target.ts";

/** Among the pages: what {@link HOME} is as JSON. */
const HOME_JSON = "/ as JSON";

/** What a browser or a tool may keep for the next minutes: it changes with the configuration. */
const CACHE_CONTROL = "max-age=300";

interface Page {
  readonly fields: readonly string[];
  readonly body: Buffer;
}

/** Made once for each configuration. */
const made = new WeakMap<Runtime, Map<string, Page>>();

/** What the gateway says about itself: the API's description, for tools and for people, and the way to it. */
export async function answerPage(
  surroundings: Surroundings,
  exchange: Exchange,
  request: IncomingMessage,
): Promise<Answer> {
  const { runtime } = exchange;
  const pages = made.get(runtime) ?? makePages(surroundings, runtime);
  made.set(runtime, pages);
  const { path } = exchange.target as LocalTarget;
  const { fields, body } = pages.get(path === HOME ? homeFor(request) : path)!;
  const etag = makeEntityTag(body);
  const sent = [...fields, "etag", etag, "cache-control", CACHE_CONTROL];
  const validators = { etag, lastModified: undefined, date: undefined };
  if (isNotModified(request.headers, validators, surroundings.clock.wallNow())) {
    return { status: 304, fields: notModifiedFields(sent), body: undefined };
  }
  return { status: 200, fields: sent, body };
}

/** People who ask with a browser read HTML; who asks for JSON rather gets that. */
function homeFor({ headers: { accept } }: IncomingMessage): string {
  const isJson = qualityOf(accept, "application/json") > qualityOf(accept, "text/html");
  return isJson ? HOME_JSON : HOME;
}

function makePages({ version }: Surroundings, runtime: Runtime): Map<string, Page> {
  const { prefix, adminHeader } = runtime.config.routing;
  const document = describeApi({
    version,
    prefix,
    adminHeader,
    isAggregate: isAggregate(runtime),
    takesAuthorization: runtime.config.upstreams.some(({ forwardAuthorization }) => forwardAuthorization),
  });
  const home = describeHome(runtime);
  return new Map([
    [OPENAPI, jsonPage(document)],
    [DOCS, htmlPage(renderDocs(document))],
    [HOME, varying(htmlPage(renderHome(home)))],
    [HOME_JSON, varying(jsonPage(home))],
  ]);
}

function jsonPage(json: object): Page {
  return { fields: ["content-type", "application/json"], body: Buffer.from(JSON.stringify(json)) };
}

function htmlPage(page: HtmlPage): Page {
  return { fields: pageFields(page), body: Buffer.from(page.html) };
}

function varying({ fields, body }: Page): Page {
  return { fields: [...fields, "vary", "Accept"], body };
}
