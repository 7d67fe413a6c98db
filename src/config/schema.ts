import { Type } from "typebox";
import type { Static } from "typebox";
import type { cacheOverridesSchema } from "./cache-schema.ts";
import { cacheSchema } from "./cache-schema.ts";
import { clientsSchema, listenTlsSchema, trustedProxiesSchema } from "./clients-schema.ts";
import { choice, count, flag, scalar, group, off, share, text } from "./keys.ts";
import { discoverySchema } from "./discovery-schema.ts";
import { redisSchema } from "./redis-schema.ts";
import { upstreamSchema } from "./upstream-schema.ts";

const port = { minimum: 0, maximum: 65_535 };

const listen = group(
  "The public listener.",
  {
    host: text({ default: "0.0.0.0", description: "Address to listen on." }),
    port: count({ default: 8080, ...port, description: "Port. 0: any free one." }),
    reusePort: flag(
      false,
      "Share the port with other replicas on this machine that have this key too (Linux): the kernel deals connections out. Each needs an operations.port of its own.",
    ),
    keepAliveTimeout: scalar("duration", {
      default: "72s",
      least: 1,
      description: "How long an idle connection is kept. Longer than the load balancer's own, or it meets closed ones.",
    }),
    headersTimeout: scalar("duration", {
      default: "15s",
      least: 1,
      description: "How long the headers of a request may take to arrive.",
    }),
    maxConnections: count({ default: 10_000, minimum: 1, maximum: 1_000_000, description: "Connections at once." }),
    tls: off(listenTlsSchema),
    trustedProxies: trustedProxiesSchema,
  },
  { restart: true },
);

const operator = group(
  "An operator with a name, which the audit keeps.",
  {
    name: text({
      pattern: "^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$",
      expected: "a name of 1 to 64 letters, digits, dots, dashes, underscores or @",
      examples: ["ada"],
      description: "The operator's name.",
    }),
    tokenFile: scalar("tokenFile", {
      examples: ["/run/secrets/operators/ada"],
      description: "File with this operator's bearer token; read again when it changes.",
    }),
    readonly: flag(false, "May read everything, and change nothing (403)."),
  },
  { restart: true },
);

const operations = group(
  "The operations listener: probes, metrics, status, purge. Where a token is configured, and always beyond loopback, all but probes and metrics needs it.",
  {
    host: text({ default: "127.0.0.1", description: "Address to listen on." }),
    port: count({ default: 9090, ...port, description: "Port. 0: any free one." }),
    hosts: Type.Array(scalar("hostName", { description: "Host name." }), {
      default: [],
      maxItems: 100,
      expected: "a list of host names",
      description: "Names it answers to besides localhost and IP addresses. Probes and metrics answer to any.",
    }),
    readonly: flag(false, "Show, and refuse (403) whatever changes something: purges, nodes, upstreams."),
    token: off(scalar("token", { examples: ["${OPERATIONS_TOKEN}"], description: "Bearer token." })),
    tokenFile: off(
      scalar("tokenFile", {
        examples: ["/run/secrets/operations"],
        description: "File with the bearer token; read again when it changes.",
      }),
    ),
    tokens: Type.Array(operator, {
      default: [],
      examples: [[{ name: "ada", tokenFile: "/run/secrets/operators/ada" }]],
      maxItems: 100,
      expected: "a list of groups with name and tokenFile",
      description: "Operators with names, each with a token.",
    }),
  },
  { restart: true },
);

const routing = group("Which registry a request means.", {
  prefix: text({
    pattern: "^(/[A-Za-z0-9._~-]+)+$",
    expected: "a path such as /registrars, without a slash at its end",
    default: "/api/token-standard/v0/registrars",
    restart: true,
    description: "One registry is at {prefix}/{admin}/registry/….",
  }),
  adminHeader: scalar("fieldName", {
    default: "x-instrument-admin",
    description: "Request header that names the admin.",
  }),
  plain: text({
    default: "aggregate",
    description:
      "What /registry/… without an admin means, with two or more upstreams: aggregate, the name of an upstream, or off.",
  }),
  learn: flag(false, "Learn which admin a contract id belongs to from earlier successes."),
  probe: flag(false, "Ask the upstreams which of them knows a contract id. Discloses the id to all of them."),
});

const aggregate = group("The merged listing of all upstreams.", {
  adminId: off(
    text({
      examples: ["gateway::1220ab0c"],
      description: "What the plain info answers as adminId. Off: it answers 400.",
    }),
  ),
  partial: flag(false, "Answer without the registries that fail, and name them in X-Registry-Partial."),
  maxSubscribers: count({
    default: 1_000,
    minimum: 0,
    maximum: 100_000,
    description: "Clients that follow /catalog/v1/changes at the same time, of each replica; those beyond get 503.",
  }),
});

const limits = group("Largest messages.", {
  requestBody: scalar("size", { default: "1MiB", least: 1, most: 2 ** 30, description: "Body of a request." }),
  responseBody: scalar("size", {
    default: "8MiB",
    least: 1,
    most: 2 ** 30,
    description: "Body of an upstream's answer.",
  }),
  uri: scalar("size", {
    default: "8KiB",
    least: 256,
    most: 2 ** 20,
    restart: true,
    description: "Path and query of a request.",
  }),
});

/** The one source of the configuration's types, defaults, checks and documentation. */
export const configSchema = group("Configuration of Registry Gateway.", {
  listen,
  operations,
  clients: off(clientsSchema),
  redis: off(redisSchema),
  routing,
  cache: cacheSchema,
  aggregate,
  limits,
  cors: group("Cross-origin requests of browsers.", {
    origins: Type.Array(scalar("origin", { description: 'An origin, or "*".' }), {
      default: ["*"],
      maxItems: 1_000,
      expected: "a list of origins",
      description: 'Origins that may read answers. "*": all.',
    }),
    allowHeaders: Type.Array(scalar("fieldName", { description: "Name of a request header." }), {
      default: [],
      maxItems: 100,
      expected: "a list of header names",
      description: "Request headers that pages may send besides those the gateway understands.",
    }),
  }),
  log: group("Log lines, as JSON on stdout.", {
    level: choice(["fatal", "error", "warn", "info", "debug", "trace", "silent"], {
      default: "info",
      description:
        "The least severe level that is written: fatal, error, warn, info, debug, trace, or silent. debug: also why each request went where it went, and every attempt.",
    }),
    hits: share({
      default: 0,
      description: "Share of fresh hits that are logged. Every other request has exactly one line.",
    }),
  }),
  docs: flag(true, "Serve /openapi.json and /docs."),
  metrics: off(
    group(
      "Metrics, beside /metrics of the operations listener.",
      {
        otlp: off(
          group("Metrics are pushed to an OpenTelemetry collector, under the names that /metrics has.", {
            endpoint: scalar("endpointUrl", {
              examples: ["http://otel-collector.example:4318/v1/metrics"],
              description: "Where metrics go (OTLP over HTTP).",
            }),
            every: scalar("duration", {
              default: "30s",
              least: 1_000,
              most: 3_600_000,
              description: "Between two pushes.",
            }),
          }),
        ),
      },
      { restart: true },
    ),
  ),
  tracing: group(
    "OpenTelemetry traces.",
    {
      endpoint: off(
        scalar("endpointUrl", {
          examples: ["http://otel-collector.example:4318/v1/traces"],
          description: "Where traces go (OTLP over HTTP).",
        }),
      ),
      ratio: share({ default: 1, description: "Share of requests that are traced." }),
    },
    { restart: true },
  ),
  shutdown: group("After SIGTERM.", {
    grace: scalar("duration", {
      default: "5s",
      description: "How long the gateway goes on accepting, with readiness already 503.",
    }),
    timeout: scalar("duration", { default: "20s", description: "How long requests that run may then take to finish." }),
  }),
  discovery: off(discoverySchema),
  upstreams: Type.Array(upstreamSchema, {
    default: [],
    maxItems: 1_000,
    expected: "a list of upstreams",
    description: "The registries, in the order in which they are listed. May be left out where discovery finds some.",
  }),
});

type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;

/**
 * A complete configuration: durations in milliseconds, sizes in bytes, file paths absolute, URLs in normal form, keys
 * that are off absent, everything else filled in.
 */
export type Config = DeepReadonly<Static<typeof configSchema>>;

/** Who may call. */
export type ClientsConfig = NonNullable<Config["clients"]>;

/** One upstream; its `cache` is complete: the global one with this upstream's keys put over it. */
export type UpstreamConfig = Config["upstreams"][number] & {
  /** Connect to addresses of the public internet alone. No key: it is so for what was found without `allowPrivate`. */
  readonly publicOnly?: boolean;
  /** Asked whose registry it is, and no more: its names hold up no others. No key: discovery asks so. */
  readonly isStranger?: boolean;
};

/** How registries are found. */
export type DiscoveryConfig = NonNullable<Config["discovery"]>;

/** How one upstream's answers are cached. */
export type CacheConfig = DeepReadonly<Static<typeof cacheOverridesSchema>>;

/** Where the shared cache is. */
export type RedisConfig = NonNullable<Config["redis"]>;

/** Credentials sent to an upstream: exactly one of the keys. */
export type AuthConfig = NonNullable<UpstreamConfig["auth"]>;
