import type { FieldName, LogEvent } from "../src/observe/log-events.ts";

const ALIAS = "alias of the registry";
const NODE = "place of the node in urls, from 0";
const REASON = "why, without addresses and ids";

/** What an event of the log says, and what its fields hold. */
export interface LogEventTexts<Field extends string = string> {
  readonly says: string;
  readonly fields: Readonly<Record<Field, string>>;
}

/** Of every event, for the documentation: one that is missing, or a field, does not compile. */
export const LOG_EVENT_TEXTS: { readonly [Event in LogEvent]: LogEventTexts<FieldName<Event>> } = {
  request: {
    says: "A request was answered. One line for each, but of fresh hits only the share log.hits. Error: a fault of the gateway.",
    fields: {
      requestId: "the client's X-Request-Id, or one made for it; sent on to the registry",
      "traceId?": "of the trace, where requests are traced",
      method: "HTTP method",
      operation: "endpoint, pass_through, or none",
      upstream: `${ALIAS}, or none`,
      "client?": "name of the client, anonymous, or none: not known who; where clients is configured",
      "instrument?": "hash of the instrument id",
      "contract?": "hash of the contract id",
      status: "HTTP status; 499: the client went away first",
      outcome: "hit, stale, revalidated, miss, bypass, or refused: answered with an error of the gateway's own",
      "collapsed?": "true: it got the answer of another request's call",
      "durationMs?": "from the request's head to the answer's last byte; not with fresh memory hits",
      "bytes?": "of the answer's body, but 0 of one that is passed through; not with fresh memory hits",
      "code?": "of an error of the gateway's own, as in Registry-Gateway-Error",
      "reason?": "error type as in Proxy-Status (RFC 9209)",
      "cause?": "code or class of the error below",
      "err?": "with level error: the fault",
    },
  },
  "client refused": {
    says: "A client's request was refused because of who it is or how much it asked. The first of each client in a minute.",
    fields: {
      client: "name of the client, anonymous, or none",
      tier: "its tier, or none",
      reason: "code of the error",
    },
  },
  "client over its limit was let in": {
    says: "A client's tier has enforce: false, and would have refused a request otherwise. The first of each client in a minute.",
    fields: { client: "name of the client, or anonymous", tier: "its tier", reason: "code of the error" },
  },
  "client keys changed": {
    says: "The keys of clients were read again, and are others than before. Names of clients, 20 of each kind at most.",
    fields: {
      changes: "how many clients it is about",
      added: "clients that were not known before",
      removed: "clients that are known no more",
      changed: "clients with other keys, another expiry or another tier",
    },
  },
  "client keys cannot be used": {
    says: "The keys file, or the keys of an issuer, cannot be read or are no good; the last good ones stay in use, those of a URL for 24 hours. Once for each reason; of an issuer again every 10 minutes.",
    fields: { source: "file, or the host of the issuer", reason: REASON },
  },
  "client keys can be used again": {
    says: "What was no good was replaced by something that is.",
    fields: { source: "file, or the host of the issuer" },
  },
  "request routed": {
    says: "Which registry a request goes to, and what says so. Not for fresh hits of a URL that was routed before.",
    fields: {
      requestId: "as in the request's line",
      operation: "endpoint, or pass_through",
      upstream: ALIAS,
      by: "path, header, body, plain (the sole registry, or routing.plain), learned or probe",
    },
  },
  "attempt ended": {
    says: "One request to a node is over: which node was chosen, why it was made, and what came of it.",
    fields: {
      "requestId?": "of the request it is for; a fetch for the cache is for many",
      upstream: ALIAS,
      operation: "endpoint, or pass_through",
      "node?": NODE,
      kind: "first, retry (after one that failed, or beside one that is very late), hedge, or stream",
      outcome: "success, error (the registry's own), failure, or cancelled",
      "reason?": "of a failure: why another node is tried",
      "status?": "HTTP status",
      durationMs: "from sending to the end of the answer",
    },
  },
  "call refused": {
    says: "A call was not made.",
    fields: { upstream: ALIAS, reason: "breaker, queue, rate-limit or disabled" },
  },
  listening: {
    says: "The listeners are up.",
    fields: {
      publicPort: "port",
      operationsPort: "port",
      upstreams: "how many are enabled",
      version: "of the gateway",
    },
  },
  stopping: { says: "A signal asked to stop.", fields: { signal: "which" } },
  stopped: { says: "Everything is closed.", fields: {} },
  configuration: {
    says: "Something in the configuration is suspicious.",
    fields: { warning: "what" },
  },
  "bad configuration": {
    says: "The configuration cannot be used; exit code 78.",
    fields: { problems: "each with line, key and what is wrong" },
  },
  "configuration reloaded": {
    says: "A changed configuration is in use.",
    fields: { cause: "signal or file", changed: "keys" },
  },
  "configuration unchanged": {
    says: "The file says what is in use already.",
    fields: { cause: "signal or file" },
  },
  "configuration refused: the one in use stays": {
    says: "The file cannot be used.",
    fields: { cause: "signal or file", problems: "each with line, key and what is wrong" },
  },
  "files that the configuration names are no good: what was read of them before stays in use": {
    says: "The rest of a changed configuration is in use. The files are tried again when they change.",
    fields: { problems: "each with line, key and what is wrong" },
  },
  "these changes of the configuration need a restart and have no effect yet": {
    says: "Keys that are read at the start alone.",
    fields: { changed: "keys" },
  },
  "node state changed": {
    says: "A node is up, ejected, or serves another registry.",
    fields: { upstream: ALIAS, node: NODE, from: "state", to: "state", reason: REASON },
  },
  "upstream state changed": {
    says: "A registry is up, degraded, failing, unproved, wrong-admin or disabled.",
    fields: { upstream: ALIAS, from: "state", to: "state", reason: REASON },
  },
  "breaker state changed": {
    says: "A circuit breaker opened or closed; while it stays open, again every 10 minutes.",
    fields: {
      upstream: ALIAS,
      calls: "api, or pass-through: whose calls it stops",
      from: "closed, half-open or open",
      to: "closed or open",
      openForSeconds: "since it opened",
    },
  },
  "admin proved": {
    says: "A node proved the registry's admin: the configured one, or the one that the registry is known by from now on.",
    fields: { upstream: ALIAS, admin: "hash of the party id" },
  },
  "node names another admin": {
    says: "A node serves another registry; it gets no requests.",
    fields: { upstream: ALIAS, node: NODE, expected: "hash of the party id", named: "hash of the party id" },
  },
  "node answers out of step": {
    says: "A node sent an answer that was not to the request it came for, or to none: the connection is closed, and what came over it since it was last surely in step is forgotten.",
    fields: {
      upstream: ALIAS,
      node: NODE,
      fault:
        "unasked: bytes that nobody asked for; early: sooner than an answer can be here; another: to another question",
    },
  },
  "nodes say different things": {
    says: "Nodes of one registry gave answers that do not mean the same: reported as an error once in ten minutes for each registry, else at debug.",
    fields: {
      upstream: ALIAS,
      operation: "the operation",
      nodes: "places of the nodes in urls, those that say the same together",
      parts: "in what they differ; ids as digests",
    },
  },
  "supportedApis changed": {
    says: "A registry's info names other APIs, as after an upgrade: clients see them when what is cached ends, or after a purge.",
    fields: { upstream: ALIAS, added: "APIs with their minor versions", removed: "APIs with their minor versions" },
  },
  "changes of a registry cannot be reported": {
    says: "A fault of the gateway: what one reading of a registry's listing changes is not reported. It is tried again with the next reading.",
    fields: { upstream: ALIAS, err: "the fault" },
  },
  "upstream answered 429: calling it less": {
    says: "Calls are rationed for a while; as long as that goes on, again every 10 minutes.",
    fields: { upstream: ALIAS, share: "of rateLimit that is used" },
  },
  "credential cannot be used": {
    says: "A credential for a registry cannot be read or fetched, or is no good; the last good one stays in use. Once for each reason, and again every 10 minutes.",
    fields: { upstream: ALIAS, key: "key of the upstream that names it", reason: REASON },
  },
  "credential can be used again": {
    says: "What was no good was replaced by something that is.",
    fields: { upstream: ALIAS, key: "key of the upstream that names it" },
  },
  "out of file descriptors: raise the limit (ulimit -n, LimitNOFILE) or lower listen.maxConnections": {
    says: "No file and no connection can be opened: new clients are turned away, registries and Redis are reached over open connections alone, files are not read again. A descriptor is taken by each connection of a client, to a node and to Redis. Once, and again every 10 minutes.",
    fields: { code: "EMFILE: the limit of this process; ENFILE: that of the machine" },
  },
  "file descriptors can be had again": {
    says: "The lack of file descriptors is over for 10 s.",
    fields: {},
  },
  "file has no name any more: changes of it are not seen": {
    says: "A file that is read again when it changes was mounted by itself, and another one has its name outside of the container. Mount its folder instead, and start the gateway anew. Once for each file.",
    fields: { file: "path" },
  },
  "listener certificate cannot be used": {
    says: "A file of listen.tls cannot be read or is no good; the last good ones stay in use. Once for each reason.",
    fields: { reason: REASON },
  },
  "listener certificate is out of its time": {
    says: "At a start: the certificate of listen.tls has ended, or does not begin yet, and is used for want of another.",
    fields: { reason: "which of these, and when" },
  },
  "listener certificate can be used again": {
    says: "What was no good was replaced by something that is.",
    fields: {},
  },
  "listener certificate replaced": {
    says: "The files of listen.tls were read again, and serve new connections.",
    fields: { expiresAt: "when the first certificate in certFile ends" },
  },
  "seal key cannot be used": {
    says: "The file of redis.sealKeyFile is no good any more; the keys read before stay in use.",
    fields: { reason: REASON },
  },
  "seal key can be used again": {
    says: "The file of redis.sealKeyFile is good again.",
    fields: {},
  },
  "Redis state changed": {
    says: "Redis is up, or away and done without.",
    fields: { to: "up or away", reason: REASON },
  },
  "Redis cannot be connected to": {
    says: "Redis refuses the login, shows another certificate, has no address, or was never there. Once for each reason, and again after ten minutes.",
    fields: { reason: REASON },
  },
  "traces cannot be sent: the newest are kept, the others dropped": {
    says: "The collector of traces does not take them.",
    fields: {},
  },
  "traces are sent again": { says: "The collector of traces takes them again.", fields: {} },
  "metrics cannot be sent": {
    says: "The collector that `metrics.otlp` names does not take them; the next push has all figures anew.",
    fields: {},
  },
  "metrics are sent again": { says: "The collector of metrics takes them again.", fields: {} },
  "too much to do: misses and calls are refused": {
    says: "The event loop is too late; hits are still answered.",
    fields: { delayMs: "how late, in milliseconds" },
  },
  "misses and calls are answered again": {
    says: "The event loop is in time again.",
    fields: { delayMs: "how late, in milliseconds" },
  },
  "console sign-in": {
    says: "Somebody signed in to the operators' console with an operations token.",
    fields: {
      by: "operations token, with the operator's name before it where there is one",
      from: "from which kind of address: loopback, private or public",
    },
  },
  "operations token cannot be used": {
    says: "The file of an operations token changed, and is no good. The last good token stays in use.",
    fields: {
      operator: "the name in operations.tokens, or operations.tokenFile",
      fault: "what is wrong with the file",
    },
  },
  "console sign-in refused": {
    says: "Somebody tried to sign in to the operators' console with another token. After five of an address in a minute, or a hundred of all, further ones are answered 429, without a line.",
    fields: { from: "from which kind of address: loopback, private or public" },
  },
  "registry pinned": {
    says: "A registry that was found is used from now on, or at other URLs than before. The same no more than once an hour.",
    fields: {
      upstream: ALIAS,
      admin: "hash of its admin",
      source: "which source listed it",
      nodes: "how many URLs it has",
    },
  },
  "registry URL mended": {
    says: "A URL of a registry is published wrongly, and is used as it was meant.",
    fields: { upstream: ALIAS, from: "as published", to: "as it is used" },
  },
  "registry waits for approval": {
    says: "What a source lists for an admin is new or has changed, and is not used before POST /discovery says so. Once an hour for each admin.",
    fields: {
      upstream: ALIAS,
      admin: "hash of its admin",
      source: "which source lists it",
      nodes: "how many URLs are listed",
    },
  },
  "listed URL is another registry": {
    says: "What answers at a URL that a source lists names another admin. The URL is not used.",
    fields: { upstream: `${ALIAS} that is listed there`, named: "hash of the admin that it named" },
  },
  "listed registry is not proved": {
    says: "None of the URLs that a source lists for an admin has proved it: they are not used, and asked again.",
    fields: { upstream: ALIAS, reason: REASON },
  },
  "more registries are listed than discovery.max": {
    says: "Those beyond it are left out.",
    fields: { max: "how many may be found", listed: "how many there are" },
  },
  "listed registries are asked later": {
    says: "A host got the 64 questions that it gets in one reading of the sources: its other URLs are asked at later readings. Once an hour.",
    fields: { urls: "how many URLs were left for later" },
  },
  "discovery source fails": {
    says: "A source cannot be read, or says too little. What it said before counts on. Once an hour for each source.",
    fields: { source: "its name", reason: REASON },
  },
  "discovery source can be read again": {
    says: "A source that failed was read.",
    fields: { source: "its name" },
  },
  "discovery source lists fewer registries": {
    says: "Registries that a source listed are gone from it. They go on being used, until an operator takes them away.",
    fields: { source: "its name", before: "how many it listed", after: "how many it lists now" },
  },
  "pin file cannot be used": {
    says: "discovery.pinFile cannot be read or written. While it cannot be read, what is new waits for approval, and nothing is written over it.",
    fields: { reason: REASON },
  },
  "pin file is not there": {
    says: "There was no discovery.pinFile at the start. With no pins from Redis either, what the lists say now is pinned: right at the very first start; later, a list that was altered would be pinned without a word, so compare GET /discovery with what you know.",
    fields: { fromRedis: "how many pins replicas share, which are used and written into a new file" },
  },
  "pin file can be used again": { says: "discovery.pinFile was read or written.", fields: {} },
  "found registries cannot be used": {
    says: "What was found could not be put to use; what was used before stays, and the next reading tries again.",
    fields: { reason: REASON },
  },
  "operator action": {
    says: "An operator purged, did something to a node or an upstream, or decided about a registry that was found, through this operations listener.",
    fields: {
      did: "purge, node, upstream or discovery",
      "upstream?": ALIAS,
      "endpoint?": "which kind of resource was purged",
      "soft?": "true: entries became stale instead of going",
      "node?": NODE,
      "state?": "active or cordoned",
      "weight?": "of the node, in the place of the configured one",
      "mode?": "normal or cache-only",
      "for?": "how long it lasts",
      "reason?": "what the operator gave as reason",
      "force?": "true: though it was the last node",
      "approve?": "whether what discovery found was approved or refused",
      by: "who: the operator's name where there is one, and what was shown: operations token, console session, or no token",
      from: "from which kind of address: loopback, private or public",
      reach: "replica, fleet or pending",
    },
  },
  "operator action in force": {
    says: "A reminder, every ten minutes: what an operator did still has effect.",
    fields: {
      upstream: ALIAS,
      node: `${NODE}; null: the upstream as a whole`,
      state: "active or cordoned; null: not about a node",
      weight: "of the node; null: as configured",
      mode: "normal or cache-only; null: not about the upstream as a whole",
      reason: "what the operator gave as reason, or null",
      by: "who: the operator's name where there is one, and what was shown: operations token, console session, or no token",
      from: "from which kind of address: loopback, private or public",
      since: "time at which it was done",
      until: "time at which it ends by itself; null: when it is undone",
    },
  },
  "operations request failed": {
    says: "A fault of the gateway on the operations listener.",
    fields: { err: "the fault" },
  },
  "cannot start": { says: "A port cannot be had.", fields: { err: "the fault" } },
  "unexpected rejection": {
    says: "A fault of the gateway in one piece of work; it goes on.",
    fields: { err: "the fault" },
  },
  "unexpected error": { says: "A fault of the gateway; it ends.", fields: { err: "the fault" } },
};
