import type { IncomingHttpHeaders } from "node:http";
import { splitList } from "../cache/rfc/cache-control.ts";
import { isNotModified, makeEntityTag, notModifiedFields } from "../cache/rfc/conditional.ts";
import { weightOf } from "../cache/rfc/request-fields.ts";
import { GatewayError } from "../errors.ts";
import { describeApi } from "../spec/openapi.ts";
import { basePathOf, registriesOf } from "./aggregate.ts";
import { answerChanges, CATALOGUE_CHANGES } from "./changes.ts";
import { answerCatalogue, CATALOGUE_INSTRUMENTS, CATALOGUE_REGISTRIES, hasCatalogue } from "./catalogue.ts";
import type { Tier } from "../clients/client.ts";
import type { RequestContext, Snapshot } from "./context.ts";
import { type Home, type HtmlPage, pageFields, renderDocs, renderHome } from "./html.ts";
import type { Answer } from "./send.ts";
import { answerFile, StaticFiles } from "./static-files.ts";
import type { LocalTarget } from "./target.ts";
import { BUILT_VIEWER } from "../version.ts";

const HOME = "/";
const OPENAPI = "/openapi.json";
const DOCS = "/docs";

const CATALOGUE = new Set([CATALOGUE_REGISTRIES, CATALOGUE_INSTRUMENTS, CATALOGUE_CHANGES]);
/** The files of the viewer, by the paths at which {@link DOCS} asks for them. */
const VIEWER_FILES = new Map(["viewer.js", "viewer.css"].map((name) => [`${DOCS}/${name}`, name]));
const viewer = new StaticFiles(BUILT_VIEWER);

const DESCRIPTIONS = new Set([OPENAPI, DOCS, ...VIEWER_FILES.keys()]);

/** Among the pages: what {@link HOME} is as JSON. */
const HOME_JSON = "/ as JSON";

/** What a browser or a tool may keep for the next minutes: it changes with the configuration. */
const CACHE_CONTROL = "max-age=300";

interface Page {
  readonly fields: readonly string[];
  readonly body: Buffer;
}

type Pages = ReadonlyMap<string, Page>;

/** Made once for each configuration and tier, and again when a registry's admin became known. */
const made = new WeakMap<Snapshot, Map<Tier | undefined, MadePages>>();

interface MadePages {
  readonly admins: string;
  readonly pages: Pages;
}

/** Whether `path` is the description of the API, which needs no credential: a client reads there how to show one. */
export function isDescription(path: string, snapshot: Snapshot): boolean {
  return DESCRIPTIONS.has(path) && snapshot.config.docs;
}

/** Whether the gateway itself has something at `path`. */
export function isOwnPage(path: string, snapshot: Snapshot): boolean {
  if (path === HOME) return true;
  return (CATALOGUE.has(path) && hasCatalogue(snapshot)) || isDescription(path, snapshot);
}

/** The gateway's own pages: the catalogue, the description of the API, and what names both. Undefined: it is a stream. */
export async function answerPage(context: RequestContext): Promise<Answer | undefined> {
  const { path } = context.target as LocalTarget;
  if (path === CATALOGUE_CHANGES) return answerChanges(context);
  if (CATALOGUE.has(path)) return answerCatalogue(context);
  const { services, request } = context;
  const file = VIEWER_FILES.get(path);
  if (file !== undefined) return answerViewerFile(file, request.headers);
  const { fields, body } = pagesFor(context).get(path === HOME ? homeFor(request.headers.accept) : path)!;
  const etag = makeEntityTag(body);
  const sent = [...fields, "etag", etag, "cache-control", CACHE_CONTROL];
  const validators = { etag, lastModified: undefined, date: undefined };
  if (isNotModified(request.headers, validators, services.clock.wallNow())) {
    return { status: 304, fields: notModifiedFields(sent), body: undefined };
  }
  return { status: 200, fields: sent, body };
}

async function answerViewerFile(name: string, headers: IncomingHttpHeaders): Promise<Answer> {
  const file = (await viewer.read())?.get(name);
  if (file === undefined) throw new GatewayError("no_such_path", "the page is not built: run npm run build");
  const { status, fields, body } = answerFile(file, headers);
  return { status, fields: [...Object.entries(fields).flat(), "cache-control", CACHE_CONTROL], body };
}

/** People who ask with a browser read HTML; a client that would rather have JSON gets that. */
function homeFor(accept: string | undefined): string {
  const isJson = qualityOf(accept, "application/json") > qualityOf(accept, "text/html");
  return isJson ? HOME_JSON : HOME;
}

/**
 * How much a client wants a media type, by its `Accept` (RFC 9110 §12.5.1): from 0 to 1; of several ranges that match,
 * the most specific counts. Without the field, everything is as good.
 */
function qualityOf(accept: string | undefined, type: string): number {
  if (accept === undefined) return 1;
  const ranges = splitList(accept.toLowerCase()).map((member) => member.split(";").map((part) => part.trim()));
  for (const wanted of [type, `${type.slice(0, type.indexOf("/"))}/*`, "*/*"]) {
    const weights = ranges.filter(([range]) => range === wanted).map((parts) => weightOf(parts.slice(1)));
    if (weights.length > 0) return Math.max(...weights);
  }
  return 0;
}

/** The pages as the client may see them; where none was identified, as those without credentials may. */
function pagesFor({ services, snapshot, client }: RequestContext): Pages {
  const { clients } = snapshot;
  const tier = client === undefined ? clients?.openTier : client.tier;
  const byTier = made.get(snapshot) ?? new Map<Tier | undefined, MadePages>();
  made.set(snapshot, byTier);
  const admins = registriesOf(snapshot, tier)
    .map(({ upstream }) => upstream.usableAdmin)
    .join("\n");
  const known = byTier.get(tier);
  if (known?.admins === admins) return known.pages;
  const pages = makePages(snapshot, tier, services.version);
  byTier.set(tier, { admins, pages });
  return pages;
}

function makePages(snapshot: Snapshot, tier: Tier | undefined, version: string): Pages {
  const { routing, upstreams, clients } = snapshot.config;
  const home = describeHome(snapshot, tier);
  const document = describeApi({
    version,
    alias: home.registries[0]?.name ?? "alias",
    prefix: routing.prefix,
    adminHeader: routing.adminHeader,
    isAggregate: hasCatalogue(snapshot),
    takesAuthorization: upstreams.some(({ forwardAuthorization }) => forwardAuthorization !== false),
    strangers: clients === undefined ? "unlimited" : clients.anonymous === false ? "refused" : "limited",
  });
  return new Map([
    [OPENAPI, jsonPage(document)],
    [DOCS, htmlPage(renderDocs(document, home.registries))],
    [HOME, varying(htmlPage(renderHome(home)))],
    [HOME_JSON, varying(jsonPage(home))],
  ]);
}

/** What `/` answers: names and paths, nothing that changes but with the configuration and as admins become known. */
function describeHome(snapshot: Snapshot, tier: Tier | undefined): Home {
  const catalog = { registries: CATALOGUE_REGISTRIES, instruments: CATALOGUE_INSTRUMENTS, changes: CATALOGUE_CHANGES };
  return {
    name: "registry-gateway",
    ...(snapshot.config.docs ? { docs: DOCS, openapi: OPENAPI } : {}),
    ...(hasCatalogue(snapshot) ? { catalog } : {}),
    registries: registriesOf(snapshot, tier).map((registry) => ({
      name: registry.upstream.name,
      admin: registry.upstream.usableAdmin ?? null,
      basePath: basePathOf(snapshot, registry),
    })),
  };
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
