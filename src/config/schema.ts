import { type Static, Type } from "typebox";
import { findCertificateFault, findKeyFault } from "./certificates.ts";
import * as keys from "./keys.ts";
import { cacheKeys, tlsKeys, upstream } from "./upstream-schema.ts";
import * as urls from "./urls.ts";

const { choice, count, duration, flag, group, list, off, secret, some, text } = keys;

const TIER = {
  pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
  expected: "the name of a tier: 1 to 64 letters, digits, dashes or underscores",
};
const OPERATOR = { pattern: "^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$", expected: "a name of letters, digits and . _ @ -" };
const HOST = { pattern: String.raw`^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$`, expected: "a host name without port" };
// Braces would take the place of the hash tags that keep a registry in one slot of a cluster.
const PREFIX = { pattern: String.raw`^[^\s{}]{1,64}$`, expected: "1 to 64 characters without spaces and braces" };
const PORT = [0, 65_535] as const;

const addressRange = keys.checked(urls.findCidrFault, "An address or a range.");
const hostName = text("A name.", { ...HOST, parse: (name) => name.toLowerCase() });
const hostPort = keys.checked(urls.findHostPortFault, "host:port.");
const origin = keys.checked(urls.findOriginFault, "An origin.");
const redisUrl = keys.checked(urls.findRedisFault, "redis:// or rediss:// (TLS).", { secret: "login" });

const listen = group("The public listener. All but the certificates takes effect at the next start.", {
  host: text("Address to listen on.", { default: "0.0.0.0" }),
  port: count(8080, PORT, "Port. 0: any free one."),
  reusePort: flag(false, "Share the port with other replicas on this machine that have this key, too (Linux)."),
  keepAliveTimeout: duration("72s", "How long an idle connection is kept: longer than the load balancer does.", 1),
  requestTimeout: duration("30s", "How long a request may take to arrive.", 1),
  maxConnections: count(10_000, [1, 1_000_000], "Connections at once."),
  trustedProxies: list("address ranges", addressRange, "Proxies that may say who the client is by X-Forwarded-For."),
  tls: off(
    group("TLS to clients. The files are read again when they change; an ended certificate replaces no good one.", {
      certFile: keys.file("Certificate and those between it and its authority (PEM).", findCertificateFault),
      keyFile: keys.file("Key of the certificate (PEM).", findKeyFault),
    }),
  ),
});

const operator = group("An operator.", {
  name: text("The operator's name.", OPERATOR),
  token: secret("The operator's token.", 16),
  readonly: flag(false, "May read everything, and purge nothing."),
});

const operations = group("The operations listener: probes, metrics, status, purge, console.", {
  host: text("Address to listen on. Takes effect at the next start.", { default: "127.0.0.1" }),
  port: count(9090, PORT, "Port. 0: any free one. Takes effect at the next start."),
  hosts: list("host names", hostName, "Names that it answers to besides localhost and addresses."),
  tokens: off(
    some("operators", operator, "With tokens, and always beyond loopback, all but probes and metrics needs one."),
  ),
});

const redis = group("What replicas share. All but the password takes effect at the next start. Off: memory only.", {
  url: off(redisUrl),
  cluster: off(some("Redis URLs", redisUrl, "Some nodes of a Redis Cluster, in the place of url.")),
  sentinel: off(
    group("A master that Redis Sentinel watches, in the place of url.", {
      name: text("The master's name."),
      nodes: some("host:port", hostPort, "The sentinels."),
      username: off(text("User at the sentinels themselves.")),
      password: off(keys.password("Password at the sentinels themselves.")),
    }),
  ),
  keyPrefix: text("Begins every key; gateways that share no cache differ in it.", { ...PREFIX, default: "rg:" }),
  username: off(text("User.")),
  password: off(keys.password("Password; a new one is taken at the next connect.")),
  tls: off(group("TLS to Redis.", tlsKeys)),
});

const ALL = { default: ["*"] };

const tier = group("What the clients of a tier may do; a part that is left out has no limit.", {
  requests: off(keys.rate("Requests of one client.")),
  concurrency: off(count(undefined, [1, 1_000_000], "Requests of one client at once.")),
  upstreams: list("names of upstreams", text("A name."), 'Upstreams that they may use and see. ["*"]: all.', ALL),
});

const issuer = group("An issuer of tokens.", {
  issuer: text("The claim iss of its tokens, letter by letter."),
  jwksUrl: keys.checked(urls.findJwksUrlFault, "Where its public keys are.", { expected: "a URL" }),
  audience: text("What the claim aud has to be or to hold."),
  clientClaim: text("The claim that names the client.", { default: "sub" }),
  tierClaim: text("The claim that names the client's tier.", { default: "tier" }),
  tier: off(text("The tier of a token that names none. Off: it is refused.", TIER)),
});

const clients = group("Who may call, and how much. Off: everybody may call, without limits.", {
  anonymous: Type.Union([Type.Literal(false), text("A tier.", TIER)], {
    default: "anonymous",
    off: false,
    expected: `${TIER.expected}, or false`,
    description: "The tier of those who show no credential, by client address. false: they are refused (401).",
  }),
  keysFile: off(keys.file("API keys, one a line as registry-gateway clients new prints it.")),
  jwt: list("issuers", issuer, "Issuers whose tokens count."),
  tiers: Type.Record(Type.String({ pattern: TIER.pattern }), tier, {
    additionalProperties: false,
    default: { anonymous: { requests: "600/1m", concurrency: 16 } },
    expected: TIER.expected,
    description: "Tiers by name.",
  }),
});

const routing = group("Which registry a request means.", {
  prefix: keys.checked(urls.findPathFault, "One registry is at {prefix}/{admin}. Takes effect at the next start.", {
    default: "/api/token-standard/v0/registrars",
  }),
  adminHeader: keys.fieldName("Header field that names the admin.", { default: "x-instrument-admin" }),
  plain: text("What /registry/… without an admin means: aggregate, the name of an upstream, or off.", {
    default: "aggregate",
    off: "off",
  }),
});

const LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

/** The one source of the configuration's types, defaults, checks, JSON schema and table in the docs. */
export const configSchema = group("Configuration of Registry Gateway.", {
  listen,
  operations,
  redis: off(redis),
  clients: off(clients),
  routing,
  cache: group("Answers to the metadata endpoints.", {
    memory: keys.size("64MiB", "Bytes of answers in the memory of each process."),
    ...cacheKeys,
  }),
  limits: group("Largest bodies.", {
    requestBody: keys.size("1MiB", "Of a request. Takes effect at the next start."),
    responseBody: keys.size("4MiB", "Of a registry's answer."),
  }),
  cors: group("Requests of web pages.", {
    origins: list("origins", origin, 'Origins that may read answers. ["*"]: all.', ALL),
  }),
  log: group("Log lines, as JSON on stdout.", {
    level: choice(LEVELS, "The least severe level that is written.", { default: "info" }),
    hits: keys.share("Share of fresh hits that are logged; every other request has one line."),
    addresses: flag(false, "Lines have the client's address."),
  }),
  shutdown: group("After SIGTERM.", {
    grace: duration("5s", "How long the gateway goes on accepting, with readiness 503."),
    timeout: duration("20s", "How long what runs may then take to finish."),
  }),
  upstreams: some("upstreams with name and urls", upstream, "The registries.", 1_000),
});

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/**
 * The effective configuration: every default filled in, durations in ms, sizes in bytes, paths of files absolute, keys that
 * are off absent, each upstream's `cache` the global keys with its own on top. Immutable.
 */
export type Config = DeepReadonly<Static<typeof configSchema>>;
export type { Rate } from "./keys.ts";
export type OperationsConfig = Config["operations"];
export type OperationsToken = NonNullable<OperationsConfig["tokens"]>[number];
export type RedisConfig = NonNullable<Config["redis"]>;
export type ClientsConfig = NonNullable<Config["clients"]>;
export type TierConfig = DeepReadonly<Static<typeof tier>>;
export type IssuerConfig = ClientsConfig["jwt"][number];
export type UpstreamConfig = Config["upstreams"][number];
export type UpstreamAuth = NonNullable<UpstreamConfig["auth"]>;
/** Paths of PEM files. */
export type TlsFiles = NonNullable<UpstreamConfig["tls"]>;
