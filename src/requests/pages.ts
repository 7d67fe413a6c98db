import { readFileSync } from "node:fs";
import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { parse } from "yaml";
import type { Config } from "../config/schema.ts";
import { GatewayError, toGatewayError } from "../errors.ts";
import { version } from "../version.ts";
import { basePathOf, registriesOf } from "./aggregate.ts";
import { sendError } from "./reply.ts";
import { checkPath, pathOf } from "./url.ts";

/** Pages of the gateway's own: `/`, and the description of the API, which needs no credential. */

const OPENAPI = "/openapi.json";
const DOCS = "/docs";
export const CATALOGUE = { registries: "/catalog/v1/registries", instruments: "/catalog/v1/instruments" } as const;

const PATHS: ReadonlySet<string> = new Set(["/", OPENAPI, DOCS, ...Object.values(CATALOGUE)]);

/** Whether there is a page of ours at a path. */
export function isPage(path: string): boolean {
  return PATHS.has(path) || path.startsWith(`${DOCS}/`);
}

/** `GET /`: names and paths of the gateway, and of the registries that the client may see. */
export function answerHome(request: FastifyRequest, reply: FastifyReply): void {
  const pathOf = basePathOf(request);
  const registries = registriesOf(request).map((registry) => {
    const { name, admin = null } = registry.upstream;
    return { name, admin, basePath: pathOf(registry) };
  });
  const home = { name: "registry-gateway", version, docs: DOCS, openapi: OPENAPI, catalog: CATALOGUE, registries };
  reply
    .header("cache-control", "no-cache")
    .type("application/json")
    .send(Buffer.from(JSON.stringify(home)));
}

/** Content-Security-Policy of `/docs`: scripts and pictures are our own, the viewer writes styles as it goes. */
const POLICY =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; " +
  "frame-ancestors 'none'; object-src 'none'";

/** `GET /openapi.json`, and Swagger UI at `/docs`. */
export async function describeApi(app: FastifyInstance): Promise<void> {
  app.addHook("onRequest", (request, _reply, done) => {
    if (pathOf(request.url) !== `${DOCS}/`) checkPath(request.url);
    done();
  });
  // @fastify/static refuses a file, or a part or a version of it, with statuses of its own.
  app.setErrorHandler<Error & { readonly statusCode?: number }>((error, request, reply) => {
    const isRefusal = error.statusCode !== undefined && error.statusCode < 500;
    const noFile = new GatewayError("no_such_path", "there is no such file, or not as it was asked for");
    sendError(request, reply, isRefusal ? noFile : toGatewayError(error));
  });
  await app.register(swagger, { mode: "static", specification: { document: DOCUMENT as never } });
  await app.register(swaggerUi, {
    routePrefix: DOCS,
    staticCSP: POLICY,
    uiConfig: { validatorUrl: null, tryItOutEnabled: true, docExpansion: "list" },
    transformSpecification: (_document, request) => documentOf(request.state.snapshot.loaded.config) as never,
    transformSpecificationClone: false,
  });
  app.get(OPENAPI, (request, reply) => {
    const text = JSON.stringify(documentOf(request.state.snapshot.loaded.config));
    reply.header("cache-control", "no-cache").type("application/json").send(Buffer.from(text));
  });
}

interface Document {
  readonly info: { readonly version: string };
  readonly servers: readonly { readonly variables: { readonly [name: string]: { readonly default: string } } }[];
  readonly components: { readonly parameters: { readonly admin: { readonly name: string } } };
}

/** The description as it is written by hand, read once. */
const DOCUMENT = parse(readFileSync(new URL("../spec/openapi.yaml", import.meta.url), "utf8")) as Document;

/** The description with what a configuration decides: prefix, admin header, and a registry to try. */
function documentOf(config: Config): object {
  const { prefix, adminHeader } = config.routing;
  const [ofRegistry, ...others] = DOCUMENT.servers;
  const admin = { ...ofRegistry!.variables["admin"], default: shownRegistry(config) };
  const server = { ...ofRegistry, url: `${prefix}/{admin}`, variables: { admin } };
  const parameters = {
    ...DOCUMENT.components.parameters,
    admin: { ...DOCUMENT.components.parameters.admin, name: adminHeader },
  };
  return {
    ...DOCUMENT,
    info: { ...DOCUMENT.info, version },
    servers: [server, ...others],
    components: { ...DOCUMENT.components, parameters },
  };
}

/** The first registry that everybody may use. */
function shownRegistry({ clients, upstreams }: Config): string {
  const open =
    clients === undefined ? ["*"] : clients.anonymous === false ? [] : clients.tiers[clients.anonymous]!.upstreams;
  const isOpen = (name: string): boolean => open.includes("*") || open.includes(name);
  return upstreams.find(({ name, enabled }) => enabled && isOpen(name))?.name ?? "registry";
}
