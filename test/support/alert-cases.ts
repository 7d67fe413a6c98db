import { type MetricKey, METRICS } from "../../src/observe/metrics/table.ts";
import type { AlertName } from "../../src/operations/conditions/conditions.ts";

/** A series as promtool's tests write it: a value each minute, `start+stepxcount`. */
interface InputSeries {
  readonly series: string;
  readonly values: string;
}

export interface AlertCase {
  readonly alert: AlertName;
  /** When the alert is looked at, from the first sample on. */
  readonly at: string;
  readonly fires: readonly InputSeries[];
  readonly silent: readonly InputSeries[];
  /** What its text says of the situation in which it fires. */
  readonly value?: number;
}

function series(key: MetricKey, labels: Record<string, string>, values: string): InputSeries {
  const all = { job: "gateway", instance: "one", ...labels };
  const matchers = Object.entries(all).map(([name, value]) => `${name}="${value}"`);
  const suffix = "le" in labels ? "_bucket" : "";
  return { series: `${METRICS[key].name}${suffix}{${matchers.join(",")}}`, values };
}

/** Requests each minute of which so many fail. */
function requests(good: number, bad: number): InputSeries[] {
  const labels = { operation: "info", upstream: "amulet" };
  return [
    series("requests", { ...labels, status: "2xx" }, `0+${good}x600`),
    series("requests", { ...labels, status: "5xx" }, `0+${bad}x600`),
  ];
}

/** Answers each minute: hits and others. */
function answers(outcomes: Record<string, string>): InputSeries[] {
  return Object.entries(outcomes).map(([outcome, values]) =>
    series("cacheAnswers", { upstream: "amulet", operation: "info", outcome }, values),
  );
}

/** Calls to one registry, by outcome. */
function made(kind: "metadata" | "other", outcomes: Record<string, string>): InputSeries[] {
  return Object.entries(outcomes).map(([outcome, values]) =>
    series("upstreamCalls", { upstream: "amulet", kind, outcome }, values),
  );
}

const AMULET = { upstream: "amulet" };

/** How a registry is that an alert may be about; what it is besides is said for a silent one. */
interface Nodes {
  readonly upstream: string;
  readonly up: string;
  readonly breaker: string;
  readonly state?: "wrong-admin" | "disabled";
  readonly mode?: "cache-only";
}

function nodes({ upstream, up, breaker, state, mode }: Nodes): InputSeries[] {
  return [
    series("upstreamNodes", { upstream, state: "up" }, up),
    series("breakerState", { upstream }, breaker),
    ...["wrong-admin", "disabled"].map((each) =>
      series("upstreamState", { upstream, state: each }, each === state ? "1x20" : "0x20"),
    ),
    series("upstreamMode", { upstream, mode: "cache-only" }, mode === undefined ? "0x20" : "1x20"),
  ];
}

/** One node of another registry, and the state that its upstream has for that. */
function wrongAdmin(state: "degraded" | "wrong-admin" | "disabled", contested = "0x10"): InputSeries[] {
  return [
    series("adminContested", AMULET, contested),
    series("upstreamNodes", { ...AMULET, state: "wrong-admin" }, "1x10"),
    ...(["degraded", "wrong-admin", "disabled"] as const).map((each) =>
      series("upstreamState", { ...AMULET, state: each }, each === state ? "1x10" : "0x10"),
    ),
  ];
}

/**
 * An answer a second of a registry whose lists are fresh for 30 s and may be served for 10 min after that, which was last reached
 * at the tenth minute: so many of them stood in for failures, by how much of that time was used.
 */
function outage(standIns: Record<"0.25" | "0.5" | "0.8" | "1", string>, stale: string): InputSeries[] {
  const labels = { operation: "instruments" };
  const outcome = (name: string, values: string) =>
    series("cacheAnswers", { ...AMULET, ...labels, outcome: name }, values);
  return [
    ...Object.entries(standIns).map(([le, values]) => series("windowUsed", { ...labels, le }, values)),
    series("windowUsed", { ...labels, le: "+Inf" }, standIns["1"]),
    outcome("hit", "0+60x10 630x30"),
    outcome("stale", stale),
  ];
}

function calls(attempts: string, retries: string): InputSeries[] {
  return [
    series("upstreamAttempts", { ...AMULET, outcome: "success" }, attempts),
    series("upstreamRetries", AMULET, retries),
  ];
}

function loop(active: string, idle: string): InputSeries[] {
  return [series("eventLoopActive", {}, active), series("eventLoopIdle", {}, idle)];
}

/** Ten answers each minute, of which so many took no longer than the bound. */
function latencies(key: MetricKey, labels: Record<string, string>, bound: string, quick: number): InputSeries[] {
  const bucket = (le: string, count: number) => series(key, { ...labels, le }, `0+${count}x60`);
  const [all] = [bucket("+Inf", 10)];
  const count = { series: all.series.replace("_bucket{", "_count{").replace(',le="+Inf"', ""), values: all.values };
  return [bucket(bound, quick), all, count];
}

/** For every alert a situation in which it fires, and one much like it in which it does not. */
export const ALERT_CASES: readonly AlertCase[] = [
  {
    alert: "RegistryGatewayErrorBudgetBurnsFast",
    at: "2h",
    fires: requests(98, 2),
    silent: requests(99, 1),
  },
  {
    alert: "RegistryGatewayErrorBudgetBurnsSlowly",
    at: "8h",
    fires: requests(990, 10),
    silent: requests(995, 5),
  },
  {
    alert: "RegistryGatewayAdminMismatch",
    at: "1m",
    fires: wrongAdmin("wrong-admin"),
    // A contested admin has an alert of its own.
    silent: wrongAdmin("disabled", "1x10"),
  },
  {
    alert: "RegistryGatewayNodeAdminMismatch",
    at: "1m",
    fires: wrongAdmin("degraded"),
    // All that it has: the registry is out, and that has an alert of its own.
    silent: wrongAdmin("wrong-admin"),
  },
  {
    alert: "RegistryGatewayAdminContested",
    at: "1m",
    fires: [series("adminContested", AMULET, "1x10")],
    silent: [series("adminContested", AMULET, "0x10")],
  },
  {
    alert: "RegistryGatewayAgreementMissing",
    at: "10m",
    fires: [series("agreementMissing", AMULET, "1x20")],
    // It is over as soon as the next node has been asked.
    silent: [series("agreementMissing", AMULET, "2x3 0x20")],
  },
  {
    alert: "RegistryGatewayAllNodesDown",
    at: "10m",
    fires: nodes({ upstream: "amulet", up: "2x20", breaker: "2x20" }),
    silent: [
      ...nodes({ upstream: "amulet", up: "1x20", breaker: "0x20" }),
      ...nodes({ upstream: "liar", up: "0x20", breaker: "0x20", state: "wrong-admin" }),
      ...nodes({ upstream: "spared", up: "0x20", breaker: "2x20", mode: "cache-only" }),
    ],
  },
  {
    // Three POSTs in eight minutes, and all fail; beside them metadata is well.
    alert: "RegistryGatewayCallsFail",
    at: "10m",
    fires: [
      ...made("other", { answered: "0x20", failed: "0 0 1 1 1 2 2 2 3x20" }),
      ...made("metadata", { answered: "0+60x30" }),
    ],
    silent: [
      ...made("other", { answered: "0 0 1 1 1 2 2 2 3x20", failed: "0 0 0 1 1 1 1 1 2x20" }),
      ...made("metadata", { failed: "0+60x30" }),
    ],
  },
  {
    alert: "RegistryGatewayMetadataFails",
    at: "10m",
    fires: made("metadata", { answered: "0+1x30", failed: "0+2x30" }),
    silent: [...made("metadata", { answered: "0+2x30", failed: "0+1x30" }), ...made("other", { failed: "0+60x30" })],
  },
  {
    alert: "RegistryGatewayRegistryErrors",
    at: "2h",
    fires: made("other", { answered: "0+9x130", failed: "0+1x130" }),
    silent: made("other", { answered: "0+97x130", failed: "0+3x130" }),
  },
  {
    alert: "RegistryGatewayAbsent",
    at: "20m",
    fires: [
      series("buildInfo", { version: "1.0.0" }, "1x3"),
      // Another deployment at the same Prometheus goes on.
      series("buildInfo", { job: "other", version: "1.0.0" }, "1x30"),
    ],
    silent: [series("buildInfo", { version: "1.0.0" }, "1x30")],
  },
  {
    alert: "RegistryGatewayAgeNearPromise",
    // Errors begin half a minute later.
    at: "20m",
    fires: outage(
      {
        "0.25": "0x11 30 90x30",
        "0.5": "0x11 30+60x3 240x30",
        "0.8": "0x11 30+60x6 420x30",
        "1": "0x11 30+60x8 540x30",
      },
      "0x10 30+60x9 600x30",
    ),
    // It was back after six minutes.
    silent: outage(
      {
        "0.25": "0x11 30 90x30",
        "0.5": "0x11 30+60x3 240x30",
        "0.8": "0x11 30+60x4 270x30",
        "1": "0x11 30+60x4 270x30",
      },
      "0x10 30+60x5 330x30",
    ),
  },
  {
    alert: "RegistryGatewayStaleAnswers",
    at: "30m",
    fires: answers({ hit: "0+70x60", stale: "0+30x60" }),
    silent: answers({ hit: "0+90x60", stale: "0+10x60" }),
  },
  {
    alert: "RegistryGatewayHitRatioDropped",
    at: "10h",
    fires: answers({ hit: "0+95x480 45600+10x200", miss: "0+5x480 2400+90x200" }),
    silent: answers({ hit: "0+95x480 45600+90x200", miss: "0+5x480 2400+10x200" }),
  },
  {
    alert: "RegistryGatewayRetryAmplification",
    at: "30m",
    fires: calls("0+125x60", "0+25x60"),
    silent: calls("0+105x60", "0+5x60"),
  },
  {
    alert: "RegistryGatewayBreakerOpen",
    at: "5m",
    fires: [series("breakerState", AMULET, "2x10")],
    silent: [series("breakerState", AMULET, "0x10")],
  },
  {
    alert: "RegistryGatewaySheds",
    at: "20m",
    fires: [series("upstreamRefused", { ...AMULET, reason: "queue" }, "0+5x30")],
    silent: [series("upstreamRefused", { ...AMULET, reason: "queue" }, "7x30")],
  },
  {
    alert: "RegistryGatewayRateLimitNearlyUsed",
    at: "10m",
    fires: [series("rateLimit", AMULET, "120x20"), series("rateLimitLeft", AMULET, "6x20")],
    silent: [series("rateLimit", AMULET, "120x20"), series("rateLimitLeft", AMULET, "60x20")],
  },
  {
    alert: "RegistryGatewayReplicasDiffer",
    at: "10m",
    fires: [series("replicasDiffering", {}, "1x20")],
    // A change of the configuration that reached one replica after the other.
    silent: [series("replicasDiffering", {}, "1x3 0x20")],
  },
  {
    alert: "RegistryGatewaySealsBroken",
    at: "10m",
    fires: [series("redisRejectedValues", { value: "entry", reason: "seal" }, "0+2x20")],
    silent: [
      series("redisRejectedValues", { value: "entry", reason: "seal" }, "5x20"),
      series("redisRejectedValues", { value: "entry", reason: "form" }, "0+2x20"),
    ],
  },
  {
    alert: "RegistryGatewayRedisAway",
    at: "5m",
    fires: [series("redisConfigured", {}, "1x10"), series("redisUp", {}, "0x10")],
    silent: [series("redisConfigured", {}, "0x10"), series("redisUp", {}, "0x10")],
  },
  {
    // Behind is as bad as ahead.
    alert: "RegistryGatewayClocksApart",
    at: "10m",
    fires: [series("redisClockOffset", {}, "-3x20")],
    silent: [series("redisClockOffset", {}, "1.5x20")],
  },
  {
    alert: "RegistryGatewayEventLoopBusy",
    at: "20m",
    fires: loop("0+57x30", "0+3x30"),
    silent: loop("0+30x30", "0+30x30"),
  },
  {
    alert: "RegistryGatewayOverloaded",
    at: "5m",
    fires: [series("shedding", {}, "1x10")],
    silent: [series("shedding", {}, "1x2 0x10")],
  },
  {
    alert: "RegistryGatewayReloadFailed",
    at: "1m",
    fires: [series("lastReloadGood", {}, "0x10")],
    silent: [series("lastReloadGood", {}, "1x10")],
  },
  {
    alert: "RegistryGatewayLogLinesDropped",
    at: "10m",
    fires: [series("logLinesDropped", {}, "0x5 7x10")],
    silent: [series("logLinesDropped", {}, "7x20")],
  },
  {
    alert: "RegistryGatewayNodeOutOfStep",
    at: "10m",
    fires: [series("nodeOutOfStep", { ...AMULET, node: "0" }, "0x5 1x30")],
    silent: [series("nodeOutOfStep", { ...AMULET, node: "0" }, "4x60")],
  },
  {
    alert: "RegistryGatewaySupportedApisChanged",
    at: "10m",
    fires: [series("supportedApisChanges", AMULET, "0x5 1x10")],
    // What was told an hour ago is no news.
    silent: [series("supportedApisChanges", AMULET, "1x20")],
  },
  {
    alert: "RegistryGatewayClientKeysUnusable",
    at: "10m",
    fires: [series("clientKeysUnusable", { source: "file" }, "0x5 1x10")],
    silent: [series("clientKeysUnusable", { source: "file" }, "1x1 0x20")],
  },
  {
    alert: "RegistryGatewayCertificateEndsSoon",
    at: "1h",
    fires: [series("certificateExpiry", { upstream: "none", role: "listener" }, "1209000-60x100")],
    silent: [series("certificateExpiry", { upstream: "none", role: "listener" }, "1300000-60x100")],
  },
  {
    alert: "RegistryGatewayCertificateEnded",
    at: "1m",
    fires: [series("certificateExpiry", { upstream: "none", role: "listener" }, "30-60x10")],
    silent: [series("certificateExpiry", { upstream: "none", role: "listener" }, "3600-60x10")],
  },
  {
    alert: "RegistryGatewayCertificateEnds",
    at: "1h",
    fires: [series("certificateExpiry", { ...AMULET, role: "node" }, "259000-60x100")],
    silent: [series("certificateExpiry", { ...AMULET, role: "node" }, "1000000-60x100")],
  },
  {
    alert: "RegistryGatewayRegistryWaitsForApproval",
    at: "30m",
    fires: [series("discoveryRegistries", { state: "waiting" }, "0x5 1x30")],
    silent: [series("discoveryRegistries", { state: "waiting" }, "1x5 0x30")],
  },
  {
    alert: "RegistryGatewayDiscoverySourceFails",
    at: "140m",
    fires: [
      series("discoverySourceSuccess", { source: "lists.example" }, "0x150"),
      series("discoveryEvery", {}, "600x150"),
    ],
    silent: [
      series("discoverySourceSuccess", { source: "lists.example" }, "0+60x150"),
      series("discoveryEvery", {}, "600x150"),
      // It is read four times a day.
      series("discoverySourceSuccess", { job: "slow", source: "lists.example" }, "0x150"),
      series("discoveryEvery", { job: "slow" }, "21600x150"),
    ],
  },
  {
    alert: "RegistryGatewayRegistriesGoneFromList",
    at: "90m",
    fires: [series("discoveryRegistries", { state: "gone" }, "0x5 2x100")],
    silent: [series("discoveryRegistries", { state: "gone" }, "2x20 0x100")],
  },
  {
    alert: "RegistryGatewayPinFileUnusable",
    at: "20m",
    fires: [series("discoveryPinFileUnusable", {}, "0x5 1x30")],
    silent: [series("discoveryPinFileUnusable", {}, "1x5 0x30")],
  },
  {
    alert: "RegistryGatewayListenerCertificateUnusable",
    at: "10m",
    fires: [series("listenerTlsUnusable", {}, "0x5 1x10")],
    silent: [series("listenerTlsUnusable", {}, "1x1 0x20")],
  },
  {
    alert: "RegistryGatewayCredentialUnusable",
    at: "10m",
    fires: [series("credentialUnusable", { ...AMULET, key: "tls" }, "0x5 1x10")],
    silent: [series("credentialUnusable", { ...AMULET, key: "tls" }, "1x1 0x20")],
  },
  {
    alert: "RegistryGatewayNodeDown",
    at: "20m",
    // One node, though two replicas say so.
    fires: ["one", "two"].flatMap((instance) => [
      series("upstreamNodes", { ...AMULET, instance, state: "up" }, "1x30"),
      series("upstreamNodes", { ...AMULET, instance, state: "ejected" }, "1x30"),
    ]),
    value: 1,
    // All of them: another alert says it.
    silent: [
      series("upstreamNodes", { ...AMULET, state: "up" }, "0x30"),
      series("upstreamNodes", { ...AMULET, state: "ejected" }, "2x30"),
    ],
  },
  {
    alert: "RegistryGatewayRegistrySlow",
    at: "30m",
    fires: latencies("upstreamDuration", { ...AMULET, kind: "other" }, "2.5", 5),
    silent: latencies("upstreamDuration", { ...AMULET, kind: "other" }, "2.5", 9.5),
  },
  {
    alert: "RegistryGatewaySlow",
    at: "30m",
    fires: latencies("requestDuration", { operation: "info", outcome: "hit" }, "0.1", 9),
    silent: latencies("requestDuration", { operation: "info", outcome: "hit" }, "0.1", 10),
  },
  {
    alert: "RegistryGatewayReplicaGone",
    at: "25m",
    fires: [
      series("buildInfo", { version: "1.0.0" }, "1x60"),
      series("buildInfo", { instance: "two", version: "1.0.0" }, "1x8"),
    ],
    silent: [
      series("buildInfo", { version: "1.0.0" }, "1x60"),
      series("buildInfo", { instance: "two", version: "1.0.0" }, "1x60"),
      // One that an upgrade started before it ended another.
      series("buildInfo", { instance: "three", version: "1.1.0" }, "_x9 1 stale"),
      // Another program's.
      { series: 'up{job="other",instance="three"}', values: "0x60" },
    ],
  },
  {
    alert: "RegistryGatewayRedisRefusesWrites",
    at: "20m",
    fires: [
      series("redisCommands", { outcome: "ok" }, "0+90x30"),
      series("redisCommands", { outcome: "error" }, "0+10x30"),
    ],
    silent: [
      series("redisCommands", { outcome: "ok" }, "0+990x30"),
      series("redisCommands", { outcome: "error" }, "0+10x30"),
    ],
  },
  {
    alert: "RegistryGatewayOperationsTokenUnusable",
    at: "10m",
    fires: [series("operationsTokenUnusable", {}, "0x5 1x10")],
    silent: [series("operationsTokenUnusable", {}, "1x1 0x20")],
  },
];
