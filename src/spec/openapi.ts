import one from "./openapi-one.json" with { type: "json" };
import several from "./openapi-several.json" with { type: "json" };

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

/** What of the document `npm run generate` makes: the same at every gateway of one registry, or of several. */
export interface MadeDocument {
  readonly openapi: "3.1.0";
  /** Those that depend on no configuration. */
  readonly servers: readonly object[];
  readonly tags: readonly object[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly components: Readonly<Record<"schemas" | "responses" | "headers" | "parameters", Record<string, unknown>>>;
}

/** An OpenAPI 3.1 document. */
export interface ApiDocument extends MadeDocument {
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly description: string;
    readonly license: object;
  };
  readonly security: readonly object[];
}

/** Describes everything the public listener answers. */
export function describeApi(options: ApiOptions): ApiDocument {
  const made = (options.isAggregate ? several : one) as unknown as MadeDocument;
  const { schemas, responses, headers, parameters } = made.components;
  const admin = { ...(parameters["Admin"] as object), name: options.adminHeader };
  return {
    openapi: made.openapi,
    info: describeInfo(options),
    servers: [...made.servers, describeRegistryServer(options)],
    security: describeSecurity(options),
    tags: made.tags,
    paths: made.paths,
    components: {
      schemas,
      responses,
      headers,
      parameters: { ...parameters, Admin: admin },
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
