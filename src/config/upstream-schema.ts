import { CACHED_OPERATIONS, type CachedOperation, cachedRecord } from "../spec/operations.ts";
import { findCertificateFault, findKeyFault } from "./certificates.ts";
import * as keys from "./keys.ts";
import * as urls from "./urls.ts";

const { choice, count, duration, flag, group, list, off, secret, text } = keys;

/** Safe as a path segment and as a metric label. */
const NAME = {
  pattern: "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
  expected: "1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit",
};

const PARTY = {
  // Control characters and spaces at the ends are copying mistakes that would match no registry.
  pattern: String.raw`^[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$`,
  expected: "a party id such as DSO::1220…",
};

const OFF_OR_CALLS = ["off", "calls"] as const;
const OFF = { off: "off" };

/** TLS to a server: registries and Redis have the same keys. */
export const tlsKeys = {
  caFile: off(keys.file("Authorities to trust instead of the system's (PEM).", findCertificateFault)),
  certFile: off(keys.file("Client certificate (PEM); needs keyFile.", findCertificateFault)),
  keyFile: off(keys.file("Key of the client certificate (PEM).", findKeyFault)),
};

const ttls = Object.fromEntries(
  CACHED_OPERATIONS.map((each) => [each, duration(cachedRecord(each).ttl, `${cachedRecord(each).summary}.`)]),
) as Record<CachedOperation, ReturnType<typeof duration>>;

/** Keys that an upstream may set for itself: all of `cache` but `memory`. */
export const cacheKeys = {
  ttl: group("How long an answer is fresh where the registry says nothing. 0s: it is not stored.", {
    ...ttls,
    notFound: duration("5s", "Of an instrument's 404."),
  }),
  honorUpstream: flag(true, "The registry's Cache-Control, Expires and Age go before ttl."),
  staleWhileRevalidate: duration("30s", "How long from its expiry an answer is served while one refresh runs."),
  staleIfError: duration("10m", "How long from its expiry an answer is served while the registry fails."),
  clientTtl: duration("0s", "What clients may keep where the registry sent no Cache-Control. 0s: no-cache."),
  forwardResponseHeaders: list("field names", keys.fieldName("A field."), "Further answer fields that pass."),
};

const rateLimit = group("Never more calls than this in any window, over all replicas and all attempts.", {
  requests: keys.rate("The window.", "120/1m"),
  burst: off(keys.rate("A second, as a rule a shorter window.")),
  group: off(text("Upstreams that name the same group share the limit, and state the same numbers.", NAME)),
});

const auth = group("Credentials of the gateway's own: exactly one of bearer, header and oauth2.", {
  bearer: off(secret("A token, sent as Authorization: Bearer.")),
  header: off(group("A header field.", { name: keys.fieldName("Its name."), value: secret("Its value.") })),
  oauth2: off(
    group("OAuth 2.0 client credentials (RFC 6749 §4.4).", {
      tokenUrl: keys.checked(urls.findEndpointFault, "The token endpoint.", { expected: "a URL" }),
      clientId: text("The client's id."),
      clientSecret: keys.password("The client's secret."),
      scope: off(text("The scope to ask for.")),
      audience: off(text("The audience to ask for.")),
    }),
  ),
});

const nodeUrl = keys.checked(urls.findNodeUrlFault, "A node's base URL.", { parse: urls.normaliseNodeUrl });
const httpProxy = keys.checked(urls.findProxyFault, "HTTP proxy to reach the registry through.", { secret: "login" });
const basePath = keys.checked(urls.findBasePathFault, "A path.");
const extraPath = keys.checked(urls.findExtraPathFault, "A path.");

export const upstream = group("A registry.", {
  name: text("Alias: metric label, log field, usable instead of the party id in a path.", NAME),
  enabled: flag(true, "false: as if it were not there, but checked."),
  mode: choice(["normal", "cache-only"], "cache-only: the registry is asked nothing, what is stored is served."),
  admin: off(text("The party id of the registry's admin. Left out: learned from its info.", PARTY)),
  urls: keys.some("URLs", nodeUrl, "Nodes of the same registry. A trailing slash or /registry is tolerated.", 64),
  timeout: duration("15s", "For all attempts together.", 1),
  attemptTimeout: duration("5s", "For one attempt. A sole node may use all of timeout.", 1),
  retries: count(2, [0, 10], "Further attempts, within a budget: a fifth of the calls or one a second."),
  hedgeAfter: duration("1s", "A second node is asked beside one that is later than this. 0s: never."),
  rateLimit: off(rateLimit),
  concurrency: count(64, [1, 10_000], "Calls at once; as many again may wait within their deadline."),
  auth: off(auth),
  tls: off(group("TLS to this registry; certificates are always verified.", tlsKeys)),
  httpProxy: off(httpProxy),
  agreement: count(1, [1, 64], "So many nodes have to give the same factory or context before it leaves."),
  proofEvery: duration("5m", "How often a node is asked again whose registry it is.", 1_000),
  pageSize: off(count(1_000, [1, 100_000], "What a listing without pageSize asks for. off: nothing.")),
  validation: choice(["lenient", "strict"], "lenient passes answers that break the published schema, strict is 502."),
  forwardAuthorization: choice(OFF_OR_CALLS, "calls: the client's Authorization goes on with all but metadata.", OFF),
  forwardClientAddress: flag(false, "The client's address goes upstream as X-Forwarded-For."),
  basePaths: list("paths", basePath, "Further base paths: /registry/… below them is this registry."),
  extraPaths: list("paths", extraPath, "Paths of the registry's origin to have here: /path, /path/*, POST /path."),
  cache: group("Any key of cache but memory, for this registry.", cacheKeys, { inherits: true }),
});
