import type { IncomingMessage } from "node:http";
import { isNotModified, notModifiedFields } from "../cache/conditional.ts";
import { makeEntityTag } from "../cache/entity-tag.ts";
import { describeApi } from "../spec/openapi.ts";
import { renderDocs } from "./docs-page.ts";
import type { Exchange } from "./exchange.ts";
import { isAggregate } from "./plain.ts";
import type { Runtime, Surroundings } from "./runtime.ts";
import type { Answer } from "./send.ts";
import type { LocalTarget } from "./target.ts";

export const OPENAPI = "/openapi.json";
export const DOCS = "/docs";

/** What a browser or a tool may keep for the next minutes: it changes with the configuration. */
const CACHE_CONTROL = "max-age=300";

interface Page {
  readonly fields: readonly string[];
  readonly body: Buffer;
}

/** Made once for each configuration. */
const made = new WeakMap<Runtime, Map<string, Page>>();

/** The API's description, for tools and for people. */
export async function answerDocs(
  surroundings: Surroundings,
  exchange: Exchange,
  request: IncomingMessage,
): Promise<Answer> {
  const { runtime } = exchange;
  const pages = made.get(runtime) ?? makePages(surroundings, runtime);
  made.set(runtime, pages);
  const { path } = exchange.target as LocalTarget;
  const { fields, body } = pages.get(path)!;
  const etag = makeEntityTag(body);
  const sent = [...fields, "etag", etag, "cache-control", CACHE_CONTROL];
  const validators = { etag, lastModified: undefined, date: undefined };
  if (isNotModified(request.headers, validators, surroundings.clock.wallNow())) {
    return { status: 304, fields: notModifiedFields(sent), body: undefined };
  }
  return { status: 200, fields: sent, body };
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
  const { html, contentSecurityPolicy } = renderDocs(document);
  return new Map([
    [OPENAPI, { fields: ["content-type", "application/json"], body: Buffer.from(JSON.stringify(document)) }],
    [
      DOCS,
      {
        fields: [
          "content-type",
          "text/html; charset=utf-8",
          "content-security-policy",
          contentSecurityPolicy,
          "referrer-policy",
          "no-referrer",
        ],
        body: Buffer.from(html),
      },
    ],
  ]);
}
