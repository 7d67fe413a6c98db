import { DAY } from "../clock.ts";
import { Type } from "typebox";
import { cacheOverridesSchema } from "./cache-schema.ts";
import { burst, choice, count, flag, scalar, group, off, share, text, tlsKeys } from "./keys.ts";

/** Safe as a path segment and as a metric label. */
const NAME = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$";

const rateLimit = group(
  "At most this many calls in any window, every attempt and check included, shared by all replicas.",
  {
    requests: count({ default: 120, minimum: 1, maximum: 1_000_000, description: "Calls in any window of per." }),
    per: scalar("duration", { default: "1m", least: 1, most: DAY, description: "Length of the window." }),
    burst: burst("calls", { most: 1_000_000, requests: 10 }),
    maxWait: scalar("duration", {
      default: "2s",
      description: "How long a call may wait for its turn before it is refused with 429.",
    }),
    perEndpoint: flag(false, "Count each endpoint by itself."),
    group: off(
      text({
        pattern: NAME,
        expected: "1 to 64 letters, digits, dots, dashes or underscores, beginning with a letter or digit",
        examples: ["one-host"],
        description:
          "Upstreams that name the same group share this limit, as registries behind one host do; they state the same requests, per, burst and perEndpoint. Calls are made in the order they come.",
      }),
    ),
  },
);

const concurrency = group("How much runs at once.", {
  max: count({ default: 64, minimum: 1, maximum: 10_000, description: "Calls at the same time." }),
  queue: count({
    default: 256,
    minimum: 0,
    maximum: 100_000,
    description: "Calls that wait for their turn; what comes beyond is refused with 503.",
  }),
});

const votes = (description: string) => count({ default: 1, minimum: 1, maximum: 64, description });

const retry = group("Trying again on another node.", {
  attempts: count({ default: 3, minimum: 1, maximum: 10, description: "Attempts in all. 1: no retries." }),
  budget: share({ default: 0.2, description: "Retries as a share of requests (and 3 a second)." }),
});

const hedge = group("Asking a second node when the first is slow.", {
  enabled: flag(true, "Needs two nodes or more."),
  quantile: share({
    default: 0.95,
    description: "Slow is slower than this quantile of the operation's latency, and than 5 ms.",
  }),
  budget: share({ default: 0.05, description: "Extra calls as a share of requests." }),
});

const auth = off(
  group(
    "Credentials sent to this upstream. Every client of this gateway may use them.",
    {
      bearerToken: off(scalar("token", { examples: ["${REGISTRY_TOKEN}"], description: "Bearer token." })),
      bearerTokenFile: off(
        scalar("tokenFile", {
          examples: ["/run/secrets/token"],
          description: "File with the bearer token; read again when it changes.",
        }),
      ),
      header: off(
        group(
          "A header of your choice.",
          {
            name: scalar("fieldName", { examples: ["x-api-key"], description: "Name of the header." }),
            value: off(scalar("token", { examples: ["${REGISTRY_KEY}"], description: "Its value." })),
            valueFile: off(
              scalar("tokenFile", {
                examples: ["/run/secrets/key"],
                description: "File with its value; read again when it changes.",
              }),
            ),
          },
          { oneOf: [["value", "valueFile"]] },
        ),
      ),
      oauth2: off(
        group(
          "OAuth 2.0 client credentials (RFC 6749 §4.4).",
          {
            tokenUrl: scalar("endpointUrl", {
              examples: ["https://login.example/oauth/token"],
              description: "Token endpoint.",
            }),
            clientId: text({ examples: ["gateway"], description: "Client id." }),
            clientSecret: off(scalar("secret", { examples: ["${CLIENT_SECRET}"], description: "Client secret." })),
            clientSecretFile: off(
              scalar("secretFile", {
                examples: ["/run/secrets/client"],
                description: "File with the client secret; read again when it changes.",
              }),
            ),
            scope: off(text({ examples: ["registry.read"], description: "Scope to ask for." })),
            audience: off(text({ examples: ["https://registry.example"], description: "Audience to ask for." })),
          },
          { oneOf: [["clientSecret", "clientSecretFile"]] },
        ),
      ),
    },
    { oneOf: [["bearerToken", "bearerTokenFile", "header", "oauth2"]] },
  ),
);

const tls = off(group("TLS to this upstream; certificates are always verified.", tlsKeys));

const nodeUrl = scalar("nodeUrl", { examples: ["https://registry.example"], description: "Base URL of one node." });

/** Which registry it is. */
const identity = {
  name: text({
    pattern: NAME,
    expected: "1 to 64 letters, digits, dots, dashes or underscores, beginning with a letter or digit",
    examples: ["amulet"],
    description: "Alias: metric label, log field, usable instead of the party id in a path.",
  }),
  enabled: flag(true, "false: as if it were not there, but checked."),
  admin: off(
    text({
      // Control characters and spaces at the ends are copying mistakes that would match no registry.
      pattern: String.raw`^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$`,
      expected: "a party id such as DSO::1220…",
      examples: ["DSO::1220ab0c"],
      description: "The party id of the registry's admin. Left out: learned from the upstream's info.",
    }),
  ),
  urls: Type.Array(
    Type.Union([
      nodeUrl,
      group("A node with its weight.", {
        url: nodeUrl,
        weight: count({
          default: 1,
          minimum: 0,
          maximum: 100,
          description:
            "Share of the calls in relation to the other nodes; where all are equal, the node that is likely to answer soonest is asked. 0: used only when no other can be.",
        }),
      }),
    ]),
    {
      minItems: 1,
      maxItems: 64,
      examples: [["https://registry.example/amulet", "https://registry-2.example/amulet"]],
      expected: "a list of URLs",
      description:
        "Nodes of the same registry, each its URL or {url, weight}. A trailing slash or /registry is tolerated.",
    },
  ),
  basePaths: Type.Array(scalar("urlPath", { description: "A path." }), {
    default: [],
    maxItems: 16,
    examples: [["/api/validator/v0/scan-proxy"]],
    expected: "a list of paths",
    description:
      "Further base paths of this registry at the gateway: below them, /registry/… is this registry. For clients that know it by such a path.",
  }),
};

/** How it is called, and what is done with its answers. */
const treatment = {
  timeout: scalar("duration", { default: "15s", least: 1, description: "All attempts together." }),
  attemptTimeout: scalar("duration", {
    default: "5s",
    least: 1,
    description: "One attempt; at most timeout. A sole node may use all of timeout.",
  }),
  cache: cacheOverridesSchema,
  rateLimit: off(rateLimit),
  concurrency,
  retry,
  hedge,
  auth,
  tls,
  httpProxy: off(
    scalar("proxyUrl", {
      examples: ["http://proxy.example:3128"],
      description: "HTTP proxy to reach this upstream through; may hold user and password.",
    }),
  ),
  http2: choice(["auto", "off"], {
    default: "auto",
    description:
      "auto: HTTP/2 to nodes that offer it (ALPN), over which no answer can reach another request. off: HTTP/1.1 alone, for nodes that do it badly.",
  }),
  agreement: group("How many nodes must say the same; each number is at most the number of urls.", {
    admin: votes("How many nodes must name the same admin before any of them is used."),
    metadata: votes("How many nodes must give the same metadata before it leaves."),
    contexts: votes("How many nodes must give the same context or factory before it leaves."),
    observe: share({
      default: 0,
      description: "Share of answers that one more node is asked about afterwards; what differs is counted and logged.",
    }),
  }),
  contexts: group("When one call for a factory or a choice context answers several clients.", {
    share: flag(
      false,
      "Byte-identical POSTs with the same forwarded credentials that run at the same time get one call's answer.",
    ),
    maxAge: scalar("duration", {
      default: "0s",
      most: 3_600_000,
      description:
        "An answer that the registry itself marks with max-age is given to equal POSTs, no longer than that and than this. 0s: never.",
    }),
  }),
  proof: group("How often nodes are asked again whose registry they are.", {
    every: scalar("duration", {
      default: "5m",
      least: 1_000,
      most: 3_600_000,
      description:
        "No request goes over a connection whose proof of the admin, its own or that of the one it was opened beside, is older than this.",
    }),
  }),
  forwardClientAddress: flag(
    false,
    "X-Forwarded-For with the client's true address goes upstream; never what the client itself sent.",
  ),
  forwardAuthorization: Type.Unsafe<boolean | "calls">({
    anyOf: [{ type: "boolean" }, { const: "calls" }],
    default: false,
    expected: "true, false or calls",
    description:
      "The client's Authorization goes upstream. calls: with POSTs and what passes through alone, so that the cache serves all. true: with metadata, too; answers with and without credentials are kept apart, unless the upstream says public, s-maxage or must-revalidate (RFC 9111 §3.5).",
  }),
  pageSize: off(
    count({
      minimum: 1,
      maximum: 100_000,
      examples: [1000],
      description:
        "What a listing without pageSize asks the registry for; smaller sizes where it refuses that one. Off: the registry's own size.",
    }),
  ),
  extraPaths: Type.Array(scalar("urlPath", { description: "A path." }), {
    default: [],
    maxItems: 16,
    examples: [["/api/utilities/v0/operator"]],
    expected: "a list of paths",
    description:
      "GET paths at the registry's origin that clients look for at the gateway's: passed through, there and below the registry's own base URL, and kept as long as the registry says.",
  }),
  validation: choice(["lenient", "strict"], {
    default: "lenient",
    description:
      "lenient: an answer that breaks the schema is passed on and counted. strict: it is 502, and requests are held to the published rules too.",
  }),
};

/** One registry behind the gateway. */
export const upstreamSchema = group("One registry.", { ...identity, ...treatment });

/** What registries have in common that are found rather than written. */
export const upstreamDefaultsSchema = group(
  "Any key of an upstream but name, enabled, admin and urls, for every registry that is found.",
  treatment,
  { repeats: true },
);
