import type { MetricKey, METRICS } from "../src/observe/metrics/table.ts";

/** What a panel's axis shows. */
export type Unit = "per second" | "seconds" | "bytes" | "share" | "count" | "age" | "state";

/** How one metric is shown in the dashboards. */
export interface Panel<Label extends string = string> {
  readonly title: string;
  /** Of what is shown: the rate of a counter, the quantiles of a histogram, the value of a gauge. */
  readonly unit: Unit;
  /** A line for each value of these. */
  readonly by?: readonly Label[];
  /** How the replicas' values of a gauge become one: their sum by default. */
  readonly replicas?: "sum" | "max" | "min";
}

type Panels = {
  readonly [Key in MetricKey]: Panel<keyof (typeof METRICS)[Key]["labels"] & string> | "elsewhere";
};

/** A panel for each metric; `elsewhere`: an alert, the console or a panel of several metrics reads it, one of them has to. */
export const PANELS: Panels = {
  requests: { title: "Requests by registry", unit: "per second", by: ["upstream"] },
  errors: { title: "Errors by code", unit: "per second", by: ["code"] },
  requestDuration: { title: "Latency by outcome", unit: "seconds", by: ["outcome"] },
  requestsInFlight: { title: "Requests in flight", unit: "count" },
  connections: { title: "Connections", unit: "count" },
  connectionsDropped: { title: "Connections refused", unit: "per second" },
  connectionsClosed: { title: "Connections closed by the gateway", unit: "per second", by: ["reason"] },
  handshakeFailures: { title: "TLS handshakes failed", unit: "per second", by: ["reason"] },

  clientRequests: { title: "Requests by client", unit: "per second", by: ["client"] },
  clientRefusals: { title: "Refused requests by client", unit: "per second", by: ["client", "reason"] },
  clientSpared: { title: "Requests over a limit that is not enforced", unit: "per second", by: ["client", "reason"] },
  clientKeysUnusable: "elsewhere",

  cacheAnswers: { title: "Answers by outcome", unit: "per second", by: ["outcome"] },
  servedAge: "elsewhere",
  windowUsed: "elsewhere",
  cacheSkips: { title: "Answers not stored, by reason", unit: "per second", by: ["reason"] },
  cacheStale: { title: "Stale answers by reason", unit: "per second", by: ["reason"] },
  cacheRefreshes: { title: "Background refreshes by result", unit: "per second", by: ["result"] },
  cacheEvictions: { title: "Entries evicted", unit: "per second" },
  cacheBytes: "elsewhere",
  cacheEntries: "elsewhere",
  cacheMaxBytes: "elsewhere",
  callsSpared: { title: "Contexts without a call of their own", unit: "per second", by: ["upstream", "by"] },
  contextBytes: { title: "Bytes of kept contexts", unit: "bytes" },
  catalogueBytes: { title: "Bytes of the catalogue", unit: "bytes" },
  catalogueCutShort: {
    title: "Registries not wholly in the catalogue",
    unit: "state",
    by: ["upstream", "reason"],
    replicas: "max",
  },
  changes: { title: "Changes of the catalogue", unit: "per second", by: ["type"] },
  subscribers: { title: "Subscribers to changes", unit: "count" },
  leases: { title: "Fetches for all replicas", unit: "count", by: ["state"] },
  supplyAsOf: { title: "Age of supplies (totalSupplyAsOf)", unit: "age", by: ["upstream"], replicas: "max" },
  purges: { title: "Purges by reach", unit: "per second", by: ["reach"] },
  purgeLag: { title: "Lag of purges", unit: "seconds" },

  upstreamState: "elsewhere",
  upstreamNodes: { title: "Nodes by state", unit: "count", by: ["upstream", "state"], replicas: "max" },
  upstreamMode: { title: "Mode of upstreams", unit: "count", by: ["upstream", "mode"], replicas: "max" },
  nodeCordoned: { title: "Cordoned nodes", unit: "state", by: ["upstream", "node"], replicas: "max" },
  upstreamCalls: {
    title: "Calls by kind and what came of them",
    unit: "per second",
    by: ["upstream", "kind", "outcome"],
  },
  upstreamAttempts: "elsewhere",
  upstreamFailures: { title: "Failed calls by reason", unit: "per second", by: ["upstream", "reason"] },
  upstreamDuration: { title: "Latency of calls", unit: "seconds", by: ["upstream", "kind"] },
  upstreamInFlight: "elsewhere",
  upstreamQueued: "elsewhere",
  upstreamMaxInFlight: "elsewhere",
  upstreamRefused: { title: "Calls refused, by reason", unit: "per second", by: ["upstream", "reason"] },
  breakerState: {
    title: "Circuit breaker (0 closed, 1 half-open, 2 open)",
    unit: "state",
    by: ["upstream"],
    replicas: "max",
  },
  upstreamEjections: { title: "Nodes ejected", unit: "per second", by: ["upstream"] },
  upstreamChecks: { title: "Checks of nodes", unit: "per second", by: ["upstream", "outcome"] },
  upstreamRetries: "elsewhere",
  retriesExhausted: { title: "Retries not made: budget spent", unit: "per second", by: ["upstream"] },
  agreements: { title: "Agreement of nodes", unit: "per second", by: ["upstream", "kind", "outcome"] },
  agreementQuestions: { title: "Calls for the sake of agreement", unit: "per second", by: ["upstream"] },
  agreementWait: { title: "Time waited for agreement, a second", unit: "seconds", by: ["upstream"] },
  upstreamHedges: { title: "Hedges by result", unit: "per second", by: ["upstream", "result"] },
  rateLimit: "elsewhere",
  rateLimitLeft: "elsewhere",
  agreementMissing: "elsewhere",
  adminContested: "elsewhere",
  nodeOutOfStep: { title: "Nodes that answer out of step", unit: "per second", by: ["upstream", "node"] },
  supportedApisChanges: "elsewhere",
  credentialUnusable: "elsewhere",
  schemaViolations: { title: "Answers that break the schema", unit: "per second", by: ["upstream", "operation"] },

  discoveryRegistries: { title: "Found registries by state", unit: "count", by: ["state"], replicas: "max" },
  discoveryRuns: { title: "Readings of the sources by outcome", unit: "per second", by: ["outcome"] },
  discoverySourceSuccess: { title: "Sources last read", unit: "age", by: ["source"], replicas: "max" },
  discoveryEvery: "elsewhere",
  discoveryPinFileUnusable: "elsewhere",

  redisConfigured: "elsewhere",
  redisUp: { title: "Redis up", unit: "state", replicas: "min" },
  redisClockOffset: { title: "Clock ahead of Redis's", unit: "seconds", replicas: "max" },
  replicasDiffering: { title: "Differences between replicas", unit: "count", replicas: "max" },
  redisCommands: { title: "Commands by outcome", unit: "per second", by: ["outcome"] },
  redisDuration: { title: "Latency of commands", unit: "seconds" },
  redisDroppedWrites: { title: "Writes dropped", unit: "per second" },
  redisRejectedValues: { title: "Values rejected", unit: "per second", by: ["value", "reason"] },

  reloads: { title: "Reloads by result", unit: "per second", by: ["result"] },
  lastReloadGood: "elsewhere",
  logLinesDropped: { title: "Log lines dropped", unit: "per second" },
  eventLoopActive: "elsewhere",
  eventLoopIdle: "elsewhere",
  eventLoopDelay: { title: "Event loop delay", unit: "seconds", replicas: "max" },
  shedding: { title: "Shedding", unit: "state", replicas: "max" },
  shedRequests: { title: "Requests shed", unit: "per second", by: ["kind"] },
  certificateExpiry: { title: "Certificates end in", unit: "seconds", by: ["upstream", "role"], replicas: "min" },
  listenerTlsUnusable: "elsewhere",
  operationsTokenUnusable: "elsewhere",
  buildInfo: { title: "Replicas by build", unit: "count", by: ["version", "revision"] },
};
