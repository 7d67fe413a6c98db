import { type Endpoint, endpointPath, ENDPOINTS, idNameOf } from "./endpoints.ts";
import { COMMON_PARAMETERS, describeErrors, HEADER_FIELDS } from "./openapi-answers.ts";
import { describeEndpoint, describePages, describePassThrough, TAGS } from "./openapi-operations.ts";
import { ErrorBody, type SchemaName, SCHEMAS, SupportedApis } from "./schemas.ts";

/** What the description depends on. */
export interface ApiOptions {
  readonly version: string;
  /** The name of a registry that is there, for addresses to try. */
  readonly alias: string;
  /** `routing.prefix` and `routing.adminHeader`. */
  readonly prefix: string;
  readonly adminHeader: string;
  /** Whether the plain base URL stands for several registries. */
  readonly isAggregate: boolean;
  /** Whether some registry gets the client's `Authorization`. */
  readonly takesAuthorization: boolean;
  /** Who may call without a credential: all, without limits; all, within limits; or nobody. */
  readonly strangers: "unlimited" | "limited" | "refused";
}

/** An OpenAPI 3.1 document. */
export interface ApiDocument {
  readonly openapi: "3.1.0";
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly description: string;
    readonly license: object;
  };
  readonly servers: readonly object[];
  readonly security: readonly object[];
  readonly tags: readonly object[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly components: Readonly<Record<"schemas" | "responses" | "headers" | "parameters", Record<string, unknown>>>;
}

/** Describes everything the public listener answers, from the very schemas that requests and answers are held to. */
export function describeApi(options: ApiOptions): ApiDocument {
  const paths = describePaths(options);
  const components = {
    schemas: {
      ...Object.fromEntries(Object.entries(SCHEMAS).map(([name, each]) => [name, inner(each, each)])),
      // As published, so that the types made of both are the same. Registries are not held to it.
      SupportedApis: { ...(inner(SupportedApis, SupportedApis) as object), additionalProperties: { type: "integer" } },
    },
    responses: describeErrors(inner(ErrorBody), options.strangers !== "unlimited"),
    headers: HEADER_FIELDS,
    parameters: COMMON_PARAMETERS,
  };
  return {
    openapi: "3.1.0",
    info: describeInfo(options),
    servers: [PLAIN, describeRegistryServer(options)],
    security: describeSecurity(options),
    tags: describeTags(options),
    paths,
    components: {
      ...withoutUnused(paths, components),
      ...describeSecuritySchemes(options),
    },
  };
}

/** What a request may show: one of these. */
function describeSecurity({ takesAuthorization, strangers }: ApiOptions): object[] {
  if (strangers === "unlimited") return takesAuthorization ? [{}, { registryToken: [] }] : [];
  return [
    ...(strangers === "limited" ? [{}] : []),
    { apiKey: [] },
    { clientToken: [] },
    ...(takesAuthorization ? [{ apiKey: [], registryToken: [] }] : []),
  ];
}

function describeSecuritySchemes({ takesAuthorization, strangers }: ApiOptions): { securitySchemes?: object } {
  const securitySchemes = {
    ...(strangers === "unlimited" ? {} : { apiKey: API_KEY, clientToken: CLIENT_TOKEN }),
    ...(takesAuthorization ? { registryToken: REGISTRY_TOKEN } : {}),
  };
  return Object.keys(securitySchemes).length === 0 ? {} : { securitySchemes };
}

const PLAIN = { url: "/", description: "The plain base URL" };

const API_KEY = {
  type: "apiKey",
  in: "header",
  name: "X-API-Key",
  description: "An API key of this gateway. It may come as `Authorization: Bearer`, too.",
};

const CLIENT_TOKEN = {
  type: "http",
  scheme: "bearer",
  description: "A token that names the client, of an issuer that this gateway knows. It ends here.",
};

const REGISTRY_TOKEN = {
  type: "http",
  scheme: "bearer",
  description: "For registries that want the client's own token. The gateway passes it on and does not check it.",
};

function describeInfo({ version, prefix, isAggregate }: ApiOptions): ApiDocument["info"] {
  const plain = isAggregate ? "stands for all of them" : "needs an admin unless there is one registry only";
  return {
    title: "Registry Gateway",
    version,
    description: `The token-registry API of every registry behind this gateway. Each registry has a base URL of its own, ${prefix}/{admin}; the plain base URL ${plain}.`,
    license: { name: "Apache-2.0", identifier: "Apache-2.0" },
  };
}

/** What `admin` means stands here: swagger-parser refuses a description of a variable. */
function describeRegistryServer({ prefix, alias }: ApiOptions): object {
  return {
    url: `${prefix}/{admin}`,
    description: "One registry: {admin} is the party id of its admin, or its alias.",
    variables: { admin: { default: alias } },
  };
}

function describeTags({ isAggregate }: ApiOptions): object[] {
  return Object.entries(TAGS)
    .filter(([name]) => isAggregate || name !== "catalogue")
    .map(([name, description]) => ({ name, description }));
}

function describePaths(options: ApiOptions): ApiDocument["paths"] {
  const paths: Record<string, object> = {};
  for (const endpoint of ENDPOINTS) {
    const method = endpoint.kind === "metadata" ? "get" : "post";
    paths[pathOf(endpoint)] = { [method]: describeEndpoint(endpoint, options) };
  }
  paths["/registry/{path}"] = describePassThrough(options);
  for (const [path, get] of Object.entries(describePages(options))) paths[path] = { servers: [PLAIN], get };
  return inner(paths) as ApiDocument["paths"];
}

/** The components that `paths` refer to, directly or through others. */
function withoutUnused(paths: object, components: ApiDocument["components"]): ApiDocument["components"] {
  const used = new Set<string>();
  const collect = (part: unknown): void => {
    for (const [, reference, kind, name] of JSON.stringify(part).matchAll(REFERENCE)) {
      if (used.has(reference!)) continue;
      used.add(reference!);
      collect(components[kind as keyof typeof components][name!]);
    }
  };
  collect(paths);
  return Object.fromEntries(
    Object.entries(components).map(([kind, named]) => [
      kind,
      Object.fromEntries(Object.entries(named).filter(([name]) => used.has(`${kind}/${name}`))),
    ]),
  ) as ApiDocument["components"];
}

const REFERENCE = /"\$ref":"#\/components\/(([a-z]+)\/([^"]+))"/g;

function pathOf(endpoint: Endpoint): string {
  return endpointPath(endpoint, "\0").replace("%00", `{${idNameOf(endpoint)!}}`);
}

/** A schema as JSON, with references in the place of those that have a name, `self` excepted. */
function inner(schema: unknown, self?: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((each) => inner(each));
  if (typeof schema !== "object" || schema === null) return schema;
  const name =
    schema === self ? undefined : (Object.keys(SCHEMAS) as SchemaName[]).find((each) => SCHEMAS[each] === schema);
  if (name !== undefined) return { $ref: `#/components/schemas/${name}` };
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, inner(value)]));
}
