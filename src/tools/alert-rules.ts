import type { CallKind } from "../observe/metrics/labels.ts";
import { Queries, aggregate, ratio, sum } from "./promql.ts";

/** A question that is asked often, with its answer kept under a name of its own. */
export interface RecordingRule {
  readonly record: string;
  readonly expr: string;
}

export interface AlertRule {
  readonly alert: string;
  /** `page`: an operator has to look now. `ticket`: within a day. */
  readonly severity: "page" | "ticket";
  /** It fires when all of them hold: values that always exist, and what they are compared with. */
  readonly conditions: readonly { readonly value: string; readonly is: ">" | "<" | "=="; readonly bound: number }[];
  /** How long they have to hold. */
  readonly for: string;
  readonly summary: string;
  /** What it means for clients, where to look, what to do. */
  readonly runbook: { readonly means: string; readonly look: string; readonly act: string };
}

const q = new Queries([], "5m");
const JOB = ["job"];
const UPSTREAM = ["job", "upstream"];

/** Share of requests that may fail over a month. */
const ERROR_BUDGET = 0.001;

const errorRatio = (range: string) => `job:registry_gateway_request_errors:ratio_rate${range}`;
const HIT_RATIO = "job:registry_gateway_cache_hits:ratio_rate30m";
const STALE_RATIO = "job:registry_gateway_cache_stale:ratio_rate5m";
const AGE = "job_operation:registry_gateway_cache_served_age_seconds:p99_10m";
const AMPLIFICATION = "job_upstream:registry_gateway_upstream_calls:amplification_rate5m";
const BUDGET_USED = "job_upstream:registry_gateway_upstream_rate_limit:used_ratio";
const BUSY = "job_instance:registry_gateway_event_loop:utilization_rate5m";

/** Of a registry's calls of one kind: not those that the gateway refused by its own limits. */
const UPSTREAM_KIND = [...UPSTREAM, "kind"];
const failureRatio = (range: string) => `job_upstream_kind:registry_gateway_upstream_call_failures:ratio_rate${range}`;
const failures = (range: string, kind?: CallKind) =>
  sum(
    UPSTREAM_KIND,
    q.over(range).increase("upstreamCalls", { outcome: "failed", ...(kind === undefined ? {} : { kind }) }),
  );
/** More than half of the calls fail, of however few: three are enough. A rate's increase is a little more or less. */
const nearlyAllFail = (kind: CallKind) => [
  { value: failureRatio("10m"), is: ">", bound: 0.5 } as const,
  { value: failures("10m", kind), is: ">", bound: 2.5 } as const,
];

const extraCalls = `(${q.rate("upstreamRetries")} or ${q.rate("upstreamHedges", { result: "started" })})`;

/** In the order of evaluation. */
export const RECORDING_RULES: readonly RecordingRule[] = [
  ...["5m", "30m", "1h", "6h"].map((range) => ({
    record: errorRatio(range),
    expr: ratio(JOB, q.over(range).rate("requests", { status: "5xx" }), q.over(range).rate("requests")),
  })),
  ...["10m", "1h"].map((range) => ({
    record: failureRatio(range),
    expr: ratio(
      UPSTREAM_KIND,
      q.over(range).rate("upstreamCalls", { outcome: "failed" }),
      q.over(range).rate("upstreamCalls"),
    ),
  })),
  {
    record: HIT_RATIO,
    expr: ratio(
      JOB,
      q.over("30m").rate("cacheAnswers", { outcome: ["hit", "stale", "revalidated"] }),
      q.over("30m").rate("cacheAnswers", { outcome: { not: ["bypass"] } }),
    ),
  },
  {
    record: STALE_RATIO,
    expr: ratio(JOB, q.rate("cacheAnswers", { outcome: "stale" }), q.rate("cacheAnswers")),
  },
  { record: AGE, expr: q.over("10m").quantile(0.99, "servedAge", ["job", "operation"]) },
  {
    record: AMPLIFICATION,
    expr: `1 / (1 - clamp_max(${ratio(UPSTREAM, extraCalls, q.rate("upstreamAttempts"))}, 0.99))`,
  },
  {
    record: BUDGET_USED,
    expr: `1 - ${aggregate("min", UPSTREAM, q.series("rateLimitLeft"))} / ${aggregate("max", UPSTREAM, q.series("rateLimit"))}`,
  },
  {
    record: BUSY,
    expr: ratio(
      ["job", "instance"],
      q.rate("eventLoopActive"),
      `(${q.rate("eventLoopActive")} + ${q.rate("eventLoopIdle")})`,
    ),
  },
];

/** From the most to the least urgent. */
export const ALERT_RULES: readonly AlertRule[] = [
  {
    alert: "RegistryGatewayErrorBudgetBurnsFast",
    severity: "page",
    conditions: [
      { value: errorRatio("1h"), is: ">", bound: 14.4 * ERROR_BUDGET },
      { value: errorRatio("5m"), is: ">", bound: 14.4 * ERROR_BUDGET },
    ],
    for: "2m",
    summary: "{{ $value | humanizePercentage }} of requests fail: a month's error budget (0.1 %) is gone in two days",
    runbook: {
      means:
        "Clients get 5xx, now and for an hour already. Wallets that send transfers fail; cached lists may still work.",
      look: "Overview: Errors by endpoint, Answers by status, Health. One upstream only: it is the registry. All at once: the gateway, its network or its last deployment.",
      act: "502 and 504: see RegistryGatewayAllNodesDown. 503: see RegistryGatewaySheds. 500: a fault of the gateway: take the log lines with level error, roll back the last deployment.",
    },
  },
  {
    alert: "RegistryGatewayAdminMismatch",
    severity: "page",
    conditions: [
      {
        value: `${aggregate("max", UPSTREAM, q.series("upstreamNodes", { state: "wrong-admin" }))} + ${aggregate("max", UPSTREAM, q.series("upstreamState", { state: "disabled" }))} - ${aggregate("max", UPSTREAM, q.series("adminContested"))}`,
        is: ">",
        bound: 0,
      },
    ],
    for: "0m",
    summary: "{{ $labels.upstream }}: a node serves another registry than configured, or nodes contradict each other",
    runbook: {
      means:
        "The node gets no requests, so nothing is misrouted. If it is the only one, or agree needs it, the registry is out.",
      look: 'GET /status on the operations listener: lastError names both admins. The log: "node names another admin".',
      act: "Ask the registry's operator whether the URL or the admin changed; never set the new admin unasked. Then correct urls or admin and reload.",
    },
  },
  {
    alert: "RegistryGatewayAdminContested",
    severity: "page",
    conditions: [{ value: aggregate("max", UPSTREAM, q.series("adminContested")), is: ">", bound: 0 }],
    for: "0m",
    summary: "{{ $labels.upstream }}: another upstream names the same admin, and neither is used",
    runbook: {
      means:
        "Two upstreams without a configured admin claim to be the same registry; one of them may be an impostor. Both are out, and what was cached of the admin is gone.",
      look: "GET /status on the operations listener: isContested, and lastError names both upstreams.",
      act: "Find out from the registry's operator which URL is right, set admin for that upstream and reload: it is used at once. Then remove the other one.",
    },
  },
  {
    alert: "RegistryGatewayAgreementMissing",
    severity: "page",
    conditions: [{ value: aggregate("max", UPSTREAM, q.series("agreementMissing")), is: ">", bound: 0 }],
    for: "5m",
    summary: "{{ $labels.upstream }}: {{ $value }} more nodes have to name the same admin before any is used",
    runbook: {
      means:
        "agree asks for more nodes than name the same admin, so none of them gets a request. Metadata is served from the cache until staleIfError ends. What a node has said counts while it is away: nodes were away since the start of a replica, or name another admin.",
      look: "GET /status on the operations listener: agreement, and of each node the admin that it named and its last error.",
      act: "Nodes away: bring them back, or correct urls. Nodes that name another admin: as RegistryGatewayAdminMismatch. Do not lower agree to make this go away while nodes contradict each other.",
    },
  },
  {
    alert: "RegistryGatewayAllNodesDown",
    severity: "page",
    conditions: [
      {
        value: `${aggregate("max", UPSTREAM, q.series("upstreamNodes", { state: "up" }))} * (${aggregate("max", UPSTREAM, q.series("breakerState"))} < bool 1)`,
        is: "==",
        bound: 0,
      },
    ],
    for: "5m",
    summary: "{{ $labels.upstream }}: no node takes requests",
    runbook: {
      means:
        "Metadata is served from the cache until staleIfError ends; everything else of this registry is refused at once.",
      look: "Upstream dashboard: Failed calls by reason. refused, dns, unreachable: network or the registry is down. tls: certificates. timeout: it hangs. GET /status has the last error of each node.",
      act: "From the gateway's machine: curl the registry's /registry/metadata/v1/info. If it fails there too, tell the registry's operator; if it only fails from here, look at DNS, egress rules and httpProxy. For a longer outage raise cache.staleIfError of this upstream and reload.",
    },
  },
  {
    alert: "RegistryGatewayCallsFail",
    severity: "page",
    conditions: nearlyAllFail("other"),
    for: "1m",
    summary: "{{ $labels.upstream }}: {{ $value | humanizePercentage }} of the calls fail",
    runbook: {
      means:
        "Most calls for transfers and allocations at this registry end with a 5xx or 429 of the registry, or without an answer. It counts calls, not requests, so a registry that is rarely called is named too.",
      look: "Upstream dashboard: Failed calls by reason, Calls by kind and what came of them. Log lines of requests with this upstream and status 5xx or 429 have the reason.",
      act: "http-429: the registry wants fewer calls; set or lower rateLimit. 5xx while RegistryGatewayBreakerOpen is silent: the registry tells its info and fails the rest; tell its operator. Otherwise as RegistryGatewayAllNodesDown.",
    },
  },
  {
    alert: "RegistryGatewayAbsent",
    severity: "page",
    conditions: [{ value: `(count(${q.series("buildInfo")}) or vector(0))`, is: "==", bound: 0 }],
    for: "5m",
    summary: "No gateway is scraped",
    runbook: {
      means: "Either nothing runs, or Prometheus cannot reach the operations listener.",
      look: "Prometheus: Status, Targets. Then GET /livez and /readyz on the operations listener.",
      act: "Exit code 78: the configuration is bad; registry-gateway check --config FILE says where. Scrape refused: operations.host is loopback by default; let the network policy pass Prometheus.",
    },
  },
  {
    alert: "RegistryGatewayErrorBudgetBurnsSlowly",
    severity: "ticket",
    conditions: [
      { value: errorRatio("6h"), is: ">", bound: 6 * ERROR_BUDGET },
      { value: errorRatio("30m"), is: ">", bound: 6 * ERROR_BUDGET },
    ],
    for: "15m",
    summary: "{{ $value | humanizePercentage }} of requests fail: a month's error budget (0.1 %) is gone in five days",
    runbook: {
      means: "A small but steady share of requests ends with 5xx.",
      look: "Overview: Errors by endpoint; Upstream dashboard: Failed calls by reason. Log lines with status 5xx have reason and cause.",
      act: "As RegistryGatewayErrorBudgetBurnsFast, within a day.",
    },
  },
  {
    alert: "RegistryGatewayMetadataFails",
    severity: "ticket",
    conditions: nearlyAllFail("metadata"),
    for: "1m",
    summary: "{{ $labels.upstream }}: {{ $value | humanizePercentage }} of the calls for metadata fail",
    runbook: {
      means: "Clients get what is in the cache until staleIfError ends, then errors.",
      look: "Upstream dashboard: Failed calls by reason. Overview: Stale answers by reason, Age served.",
      act: "As RegistryGatewayCallsFail, within a day; sooner when RegistryGatewayAgeNearPromise fires as well.",
    },
  },
  {
    alert: "RegistryGatewayRegistryErrors",
    severity: "ticket",
    conditions: [
      { value: failureRatio("1h"), is: ">", bound: 0.05 },
      { value: failures("1h"), is: ">", bound: 9.5 },
    ],
    for: "5m",
    summary:
      "{{ $labels.upstream }}: {{ $value | humanizePercentage }} of its calls ({{ $labels.kind }}) failed in the last hour",
    runbook: {
      means:
        "A part of the calls fails, after retries. kind metadata: instruments and info; other: transfers and allocations.",
      look: "Upstream dashboard: Failed calls by reason, Calls by kind and what came of them, Nodes by state.",
      act: "As RegistryGatewayCallsFail, within a day. One failing id or path of one client looks the same: the log lines of requests have hashes of the ids.",
    },
  },
  {
    alert: "RegistryGatewayAgeNearPromise",
    severity: "ticket",
    conditions: [
      { value: `${AGE} / ${aggregate("max", ["job", "operation"], q.series("agePromise"))}`, is: ">", bound: 0.8 },
    ],
    for: "10m",
    summary: "{{ $labels.operation }}: one answer in a hundred is nearly as old as the configuration allows",
    runbook: {
      means: "What is served comes from before an outage; soon it may not be served any more and clients get errors.",
      look: "Overview: Age served, Stale answers by reason, Health: which registry has not been reached for so long?",
      act: "Bring the registry back. If old data is better than none, raise cache.staleIfError of that upstream and reload: it applies to what is stored from then on.",
    },
  },
  {
    alert: "RegistryGatewayStaleAnswers",
    severity: "ticket",
    conditions: [{ value: STALE_RATIO, is: ">", bound: 0.2 }],
    for: "10m",
    summary: "{{ $value | humanizePercentage }} of cached answers are stale",
    runbook: {
      means: "Refreshes fail or come late. Clients get data older than its time to live, marked as stale.",
      look: "Overview: Stale answers by reason. stale-if-error: a registry fails. stale-while-revalidate: refreshes are slow, or entries are asked for more rarely than they expire.",
      act: "stale-if-error: see the registry. stale-while-revalidate alone: harmless; longer cache.ttl makes it rarer.",
    },
  },
  {
    alert: "RegistryGatewayHitRatioDropped",
    severity: "ticket",
    conditions: [
      { value: `${HIT_RATIO} / avg_over_time(${HIT_RATIO}[1d])`, is: "<", bound: 0.6 },
      { value: sum(JOB, q.over("30m").rate("cacheAnswers")), is: ">", bound: 0.1 },
    ],
    for: "15m",
    summary: "The hit ratio is {{ $value | humanizePercentage }} of what it was over the last day",
    runbook: {
      means: "More requests reach the registries, and their rate limits come nearer.",
      look: "Overview: Answers not stored, by reason; Entries evicted; Purges; Redis up. A registry may have begun to send no-store.",
      act: "Evictions: raise cache.memory.maxBytes. no-store or private: ask the registry, or set honorUpstream: false for it. unissued-token: a client makes up page tokens.",
    },
  },
  {
    alert: "RegistryGatewayRetryAmplification",
    severity: "ticket",
    conditions: [{ value: AMPLIFICATION, is: ">", bound: 1.15 }],
    for: "10m",
    summary: "{{ $labels.upstream }} gets {{ $value | humanize }} calls for each that is wanted",
    runbook: {
      means:
        "Retries and hedges near their budgets (20 % and 5 %): calls fail or are slow on one node and succeed on another.",
      look: "Upstream dashboard: Failed calls by reason, Hedges by result, Nodes ejected. GET /status shows which node.",
      act: "Take the bad node out of urls, or tell the registry's operator. The budgets keep this from becoming an avalanche.",
    },
  },
  {
    alert: "RegistryGatewayBreakerOpen",
    severity: "ticket",
    conditions: [{ value: aggregate("max", UPSTREAM, q.series("breakerState")), is: ">", bound: 0 }],
    for: "1m",
    summary: "{{ $labels.upstream }}: the circuit breaker is open",
    runbook: {
      means:
        "Calls failed one after the other and the registry did not tell its info either, so new ones are refused at once with 503 and Retry-After. The gateway goes on asking for the info, every 8 s at least, and closes the breaker when it is told.",
      look: "Upstream dashboard: Failed calls by reason, Checks of nodes.",
      act: "As RegistryGatewayAllNodesDown. Nothing has to be reset.",
    },
  },
  {
    alert: "RegistryGatewaySheds",
    severity: "ticket",
    conditions: [
      {
        value: sum([...UPSTREAM, "reason"], q.rate("upstreamRefused", { reason: ["queue", "rate-limit"] })),
        is: ">",
        bound: 0,
      },
    ],
    for: "5m",
    summary: "{{ $labels.upstream }}: calls are refused ({{ $labels.reason }})",
    runbook: {
      means:
        "queue: more calls wait than concurrency allows; clients get 503. rate-limit: the registry's limit is used up; clients get 429.",
      look: "Upstream dashboard: Saturation, Rate limit used, Latency of calls; Requests by endpoint: which client is new?",
      act: "queue: the registry is slow, or concurrency is too small for it. rate-limit: longer TTLs, prefetch off, or a higher limit agreed with the registry.",
    },
  },
  {
    alert: "RegistryGatewayRateLimitNearlyUsed",
    severity: "ticket",
    conditions: [{ value: BUDGET_USED, is: ">", bound: 0.9 }],
    for: "5m",
    summary: "{{ $labels.upstream }}: {{ $value | humanizePercentage }} of rateLimit is used",
    runbook: {
      means: "Background work is already held back; soon clients wait, then get 429.",
      look: "Upstream dashboard: Calls to registries, Requests by endpoint, Hit ratio.",
      act: "As RegistryGatewaySheds, rate-limit.",
    },
  },
  {
    alert: "RegistryGatewaySealsBroken",
    severity: "ticket",
    conditions: [
      {
        value: aggregate("sum", ["job", "value"], q.increase("redisRejectedValues", { reason: "seal" })),
        is: ">",
        bound: 3,
      },
    ],
    for: "1m",
    summary: "Values in Redis ({{ $labels.value }}) do not open with redis.sealKeyFile",
    runbook: {
      means:
        "Another party writes to Redis, or replicas have different seal keys. What does not open is not used: clients get what is right, and more of it from the registries.",
      look: "Overview: Values rejected, by value and reason. The key files of all replicas: sha256sum says whether they are the same. Redis: CLIENT LIST, ACL LOG.",
      act: "A change of the key that is under way: follow docs/operations/sealing.md, and it ends by itself. Else take the right to write to Redis from all but the gateways, and give them a new key.",
    },
  },
  {
    alert: "RegistryGatewayRedisAway",
    severity: "ticket",
    conditions: [
      {
        value: `${aggregate("max", ["job", "instance"], q.series("redisConfigured"))} - ${aggregate("min", ["job", "instance"], q.series("redisUp"))}`,
        is: ">",
        bound: 0,
      },
    ],
    for: "2m",
    summary: "{{ $labels.instance }} works without Redis",
    runbook: {
      means:
        "Clients notice little: each replica fetches for itself, purges reach one replica only and are written down for later, and each replica keeps to its share of the rate limits.",
      look: 'The log: "Redis state changed". GET /status: redis. Overview: Commands by outcome.',
      act: "Bring Redis back; replicas find it within seconds. A purge that must hold now: send it to every replica.",
    },
  },
  {
    alert: "RegistryGatewayEventLoopBusy",
    severity: "ticket",
    conditions: [{ value: BUSY, is: ">", bound: 0.9 }],
    for: "5m",
    summary: "{{ $labels.instance }}: the event loop is busy {{ $value | humanizePercentage }} of the time",
    runbook: {
      means: "The replica is at its limit: requests wait for each other and latencies grow.",
      look: "Overview: Event loop delay, CPU, Requests by endpoint.",
      act: "More replicas, or workers on a machine with idle cores. If requests did not grow: large bodies or many misses; look at Bytes by outcome.",
    },
  },
  {
    alert: "RegistryGatewayOverloaded",
    severity: "ticket",
    conditions: [{ value: aggregate("max", ["job", "instance"], q.series("shedding")), is: ">", bound: 0 }],
    for: "1m",
    summary: "{{ $labels.instance }} has more to do than it can: misses and calls are refused",
    runbook: {
      means: "The event loop is so late that only memory hits are answered; everything else gets 503 with Retry-After.",
      look: "Overview: Event loop delay, Event loop utilization, Requests shed, Requests by endpoint.",
      act: "As RegistryGatewayEventLoopBusy, now.",
    },
  },
  {
    alert: "RegistryGatewayWorkerReplaced",
    severity: "ticket",
    conditions: [
      { value: sum(["job", "instance", "reason"], q.over("15m").increase("workerEnds")), is: ">", bound: 0 },
    ],
    for: "0m",
    summary: "{{ $labels.instance }}: a worker {{ $labels.reason }} and was replaced",
    runbook: {
      means: "Requests that the worker was answering were lost; the others went on.",
      look: 'The log: "unexpected error" has the fault and where it happened.',
      act: "A fault of the gateway: keep the lines, roll back if it began with a deployment.",
    },
  },
  {
    alert: "RegistryGatewayReloadFailed",
    severity: "ticket",
    conditions: [{ value: aggregate("min", ["job", "instance"], q.series("lastReloadGood")), is: "==", bound: 0 }],
    for: "0m",
    summary: "{{ $labels.instance }} refused the configuration file and goes on with the earlier one",
    runbook: {
      means: "Clients notice nothing, but at its next start this replica will not come up.",
      look: 'The log: "configuration refused" lists every problem with line and key.',
      act: "registry-gateway check --config FILE, correct it, reload.",
    },
  },
  {
    alert: "RegistryGatewayNodesDiffer",
    severity: "ticket",
    conditions: [
      {
        value: sum([...UPSTREAM, "operation", "kind"], q.over("1h").increase("nodeDivergences")),
        is: ">",
        bound: 0,
      },
    ],
    for: "0m",
    summary: "{{ $labels.upstream }}: nodes answer {{ $labels.operation }} differently ({{ $labels.kind }})",
    runbook: {
      means:
        "Two nodes of the registry gave the same question different answers, twice. Clients get the one or the other, by chance. kind supply: another totalSupply as of the same moment; data: anything else.",
      look: 'GET /status: divergences of the upstream has both values, and odd is the node that a third one contradicts. The log: "nodes differ" has the paths.',
      act: "While a registry is upgraded node by node: wait. Else cordon the odd node (POST /nodes), purge the registry's instruments, and tell the registry's operator. With two nodes ask the operator which one is right.",
    },
  },
  {
    alert: "RegistryGatewaySupportedApisChanged",
    severity: "ticket",
    conditions: [{ value: sum(UPSTREAM, q.over("15m").increase("supportedApisChanges")), is: ">", bound: 0 }],
    for: "0m",
    summary: "{{ $labels.upstream }}: the registry's info names other APIs than before",
    runbook: {
      means:
        "The registry was upgraded, or rolled back. Clients choose between versions by supportedApis, which is cached: until the entries end, they go on as before.",
      look: 'The log: "supportedApis changed" names what was added and removed.',
      act: 'On an upgrade day, purge the registry\'s info and instruments, so that clients see it at once: POST /purge with {"upstream": name, "endpoint": "info"}, then the same with "instruments". Not expected: ask the registry\'s operator.',
    },
  },
  {
    alert: "RegistryGatewayClientKeysUnusable",
    severity: "ticket",
    conditions: [
      { value: aggregate("max", [...JOB, "source"], q.over("5m").highest("clientKeysUnusable")), is: ">", bound: 0 },
    ],
    for: "0m",
    summary: "the keys of clients ({{ $labels.source }}) cannot be read, or are no good",
    runbook: {
      means:
        "The last good keys stay in use: clients that were added since are refused, and clients that were removed are still served. With a bad keys file a replica does not come up at its next start.",
      look: 'The log: "client keys cannot be used" says why, with the line of the file.',
      act: "registry-gateway clients check FILE names every mistake of a keys file. Of an issuer: look whether its JWKS can be fetched from the gateway's machine. Either is read again within seconds.",
    },
  },
  ...(["ticket", "page"] as const).map((severity): AlertRule => {
    const days = severity === "page" ? 3 : 14;
    return {
      alert: severity === "page" ? "RegistryGatewayCertificateEnds" : "RegistryGatewayCertificateEndsSoon",
      severity,
      conditions: [
        {
          value: aggregate("min", [...UPSTREAM, "role"], q.series("certificateExpiry")),
          is: "<",
          bound: days * 86_400,
        },
      ],
      for: "15m",
      summary: `A certificate ends within ${days} days: {{ $labels.role }}, upstream {{ $labels.upstream }}`,
      runbook: {
        means:
          "Once it has ended, no connection is made with it: listener, clients cannot connect; client_authority, clients by certificate cannot; client, the registry refuses the gateway; node and authority, the gateway refuses the registry; redis, replicas no longer share.",
        look: "GET /status: certificates, and those of each upstream, with their ends.",
        act: "Put a new file in the place of the old one: those of listen.tls and of upstreams are read again within seconds, those of redis at the next start. node: ask the registry's operator.",
      },
    };
  }),
  {
    alert: "RegistryGatewayRegistryWaitsForApproval",
    severity: "ticket",
    conditions: [
      {
        value: aggregate("max", JOB, q.over("5m").highest("discoveryRegistries", { state: "waiting" })),
        is: ">",
        bound: 0,
      },
    ],
    for: "10m",
    summary: "{{ $value }} registries are listed anew or elsewhere, and wait for an operator",
    runbook: {
      means:
        "Clients notice nothing of a registry that moved while its old URLs answer; one that is new is 404 to them. A list may also have been altered by somebody who wants to answer in a registry's place.",
      look: "registry-gateway discovery, or GET /discovery: what is used, what is proposed, since when and by which source.",
      act: "Ask the registry's operator whether the URLs are theirs, by another way than the list. Then registry-gateway discovery approve ADMIN, or refuse ADMIN.",
    },
  },
  {
    alert: "RegistryGatewayDiscoverySourceFails",
    severity: "ticket",
    conditions: [
      {
        value: `time() - ${aggregate("max", [...JOB, "source"], q.series("discoverySourceSuccess"))}`,
        is: ">",
        bound: 7_200,
      },
    ],
    for: "5m",
    summary: "The source {{ $labels.source }} was not read without a fault for {{ $value | humanizeDuration }}",
    runbook: {
      means: "Registries that were found go on being used. What is new in the list, or has moved, is not known.",
      look: 'registry-gateway discovery says what is wrong with it; so does the log: "discovery source fails".',
      act: "Fetch the URL from the gateway's machine. A list has at most 4 MiB, is JSON, and is not redirected; of scans, so many as discovery.sources[].agree says have to answer alike. check --live reads the sources without changing anything.",
    },
  },
  {
    alert: "RegistryGatewayRegistriesGoneFromList",
    severity: "ticket",
    conditions: [
      {
        value: aggregate("max", JOB, q.over("5m").highest("discoveryRegistries", { state: "gone" })),
        is: ">",
        bound: 0,
      },
    ],
    for: "1h",
    summary: "{{ $value }} registries are used and no source lists them any more",
    runbook: {
      means:
        "Clients notice nothing while the registries answer. A registry may have been closed, or its list be broken.",
      look: "registry-gateway discovery names those with the state gone.",
      act: "A list that lost many at once is broken: tell those who publish it. A registry that is closed is taken away by registry-gateway discovery approve ADMIN.",
    },
  },
  {
    alert: "RegistryGatewayPinFileUnusable",
    severity: "ticket",
    conditions: [{ value: aggregate("max", JOB, q.over("5m").highest("discoveryPinFileUnusable")), is: ">", bound: 0 }],
    for: "5m",
    summary: "discovery.pinFile cannot be read or written",
    runbook: {
      means:
        "What is pinned goes on being used by this process, and by replicas with Redis. After a restart without Redis it is not known where a registry was found first. While the file is broken, new registries wait for approval.",
      look: 'The log: "pin file cannot be used" says why.',
      act: "Give the gateway's user the right to write the file and its folder. Put a broken file back from a backup, or take it away where all that the lists say now can be trusted; it is read again at the next reading of the sources.",
    },
  },
  {
    alert: "RegistryGatewayListenerCertificateUnusable",
    severity: "ticket",
    conditions: [{ value: aggregate("max", JOB, q.over("5m").highest("listenerTlsUnusable")), is: ">", bound: 0 }],
    for: "0m",
    summary: "A file of listen.tls cannot be read or is no good",
    runbook: {
      means:
        "Clients notice nothing while the last good certificate lasts. At its next start a replica will not come up.",
      look: 'The log: "listener certificate cannot be used" says why.',
      act: "Look at path, rights and contents of certFile, keyFile and clientCaFile; the key has to be the certificate's. registry-gateway check finds the same. They are read again within seconds.",
    },
  },
  {
    alert: "RegistryGatewayCredentialUnusable",
    severity: "ticket",
    conditions: [
      { value: aggregate("max", [...UPSTREAM, "key"], q.over("5m").highest("credentialUnusable")), is: ">", bound: 0 },
    ],
    for: "0m",
    summary: "{{ $labels.upstream }}: what {{ $labels.key }} names cannot be read or fetched, or is no good",
    runbook: {
      means:
        "The last good credential stays in use while it lasts; without one, calls to this registry fail with 502. A reload that brought it leaves this registry as it was. At its next start a replica will not come up.",
      look: 'The log: "credential cannot be used" says why.',
      act: "Look at the file's path, rights and contents (one line; a certificate with its own key), or at the token endpoint. registry-gateway check finds the same. It is read again within seconds.",
    },
  },
];
