import { describe, expect, test } from "vitest";
import type { Registry } from "@prometheus-io/client";
import { createMetrics } from "../../src/observe/metrics.ts";
import type { Metrics } from "../../src/observe/metrics.ts";
import { forgetUpstreams } from "../../src/observe/metrics/live-registry.ts";
import { LOG_EVENTS } from "../../src/observe/log-events.ts";
import { CONDITIONS } from "../../src/operations/conditions/conditions.ts";
import { type Health, HealthReport } from "../../src/operations/conditions/health.ts";
import type { ReloadReport } from "../../src/operations/config-report.ts";
import type { DiscoveryReport } from "../../src/discovery/report.ts";
import type { ProcessStatus } from "../../src/operations/status.ts";
import { ALERTS } from "../../tools/alerts.ts";
import { ManualClock } from "../support/manual-clock.ts";

type Upstream = ProcessStatus["upstreams"][number];

const NODE = { url: "https://a.example", state: "up", lastError: undefined } as Upstream["nodes"][number];
const NO_DISCOVERY: DiscoveryReport = { sources: [], registries: [], pinFileError: null };

function upstream(name: string, change: Partial<Upstream> = {}): Upstream {
  return {
    name,
    state: "up",
    mode: "normal",
    breaker: "closed",
    isContested: false,
    certificates: [],
    nodes: [NODE],
    ...change,
  } as unknown as Upstream;
}

/** What changes of a gateway with the registries a and b, all well. */
interface Scene extends Partial<ProcessStatus> {
  readonly lastReload?: Pick<ReloadReport, "result" | "problems">;
  readonly discovery?: Partial<DiscoveryReport>;
  readonly operatorFaults?: ReadonlyMap<string, string>;
  readonly replicaDifferences?: readonly string[];
  readonly replicasLost?: readonly string[];
}

class Gateway {
  readonly clock = new ManualClock();
  readonly metrics: Metrics;
  readonly registry: Registry;
  scene: Scene;
  readonly report: HealthReport;

  constructor(scene: Scene = {}) {
    this.scene = scene;
    const { metrics, registry } = createMetrics();
    this.metrics = metrics;
    this.registry = registry;
    this.report = new HealthReport({
      clock: this.clock,
      metrics: this.metrics,
      refresh: () => undefined,
      status: () => ({
        cache: { memory: { entries: 1, bytes: 1, maxBytes: 1_000 } },
        redis: { configured: false },
        inForce: [],
        certificates: [],
        upstreams: [upstream("a"), upstream("b")],
        ...this.scene,
      }),
      discovery: () => ({ ...NO_DISCOVERY, ...this.scene.discovery }),
      lastReload: () => this.scene.lastReload as ReloadReport | undefined,
      operatorFaults: () => this.scene.operatorFaults ?? new Map(),
      replicas: { settled: () => this.scene.replicaDifferences ?? [], lost: () => this.scene.replicasLost ?? [] },
    });
  }

  look(): Promise<Health> {
    return this.report.look();
  }

  /** As it is seen once every alert has held for as long as it wants. */
  async lookLater(): Promise<Health> {
    await this.look();
    this.clock.advance(20 * 60_000);
    return this.look();
  }
}

test("all that is well is one sentence, and nothing to look at", async () => {
  expect(await new Gateway().look()).toEqual({
    severity: null,
    sentence: "All 2 registries are well.",
    findings: [],
    more: 0,
  });
  expect((await new Gateway({ upstreams: [upstream("a")] }).look()).sentence).toBe("The registry is well.");
});

// One named a line that there is not.
test("a runbook that names a line of the log names one that there is", () => {
  const named = Object.values(ALERTS).flatMap(({ runbook }) =>
    Array.from(runbook.look.matchAll(/[Tt]he log: "([^"]+)"/g)),
  );
  expect(named.length).toBeGreaterThan(5);
  for (const [, message] of named) expect(Object.keys(LOG_EVENTS)).toContain(message);
});

test("the worst comes first, and the sentence says it", async () => {
  const gateway = new Gateway({
    upstreams: [
      upstream("slow", { state: "degraded", nodes: [NODE, { ...NODE, state: "ejected" }] }),
      upstream("dead", { state: "failing", breaker: "open", lastError: "the connection was refused" }),
      upstream("well"),
    ],
  });
  const { severity, sentence, findings } = await gateway.lookLater();
  expect(severity).toBe("page");
  expect(sentence).toBe(
    "1 of 3 registries are well. dead fails, its circuit breaker is open: the connection was refused. And 2 more things to look at.",
  );
  expect(findings.map(({ id, upstream: name }) => [id, name])).toEqual([
    ["RegistryGatewayAllNodesDown", "dead"],
    ["RegistryGatewayNodeDown", "slow"],
    ["RegistryGatewayBreakerOpen", "dead"],
  ]);
});

test("what would page warns until it has held as long as the alert wants, and says since when it was seen", async () => {
  const gateway = new Gateway({
    upstreams: [upstream("a", { state: "unproved", nodes: [{ ...NODE, state: "unproved" }] })],
  });
  const since = new Date(gateway.clock.wallNow()).toISOString();
  expect((await gateway.look()).findings).toMatchObject([{ severity: "warning", since }]);
  gateway.clock.advance(5 * 60_000);
  expect((await gateway.look()).findings).toMatchObject([{ severity: "page", since }]);
  const well = { upstreams: [upstream("a")] };
  const [before] = [gateway.scene];
  gateway.scene = well;
  expect((await gateway.look()).findings).toEqual([]);
  gateway.scene = before;
  // It is over, and begins anew.
  expect((await gateway.look()).findings).toMatchObject([{ severity: "warning" }]);
});

/** For each condition that a process sees by itself, a gateway in which it is so. */
const SCENES: Readonly<Record<string, Scene | ((metrics: Metrics) => void)>> = {
  RegistryGatewayAdminMismatch: {
    upstreams: [upstream("a", { state: "wrong-admin", nodes: [{ ...NODE, state: "wrong-admin" }] })],
  },
  RegistryGatewayNodeAdminMismatch: {
    upstreams: [upstream("a", { state: "degraded", nodes: [NODE, { ...NODE, state: "wrong-admin" }] })],
  },
  RegistryGatewayAdminContested: { upstreams: [upstream("a", { state: "disabled", isContested: true })] },
  RegistryGatewayAgreementMissing: {
    upstreams: [upstream("a", { agreement: { needed: 2, agreeing: 1, isReached: false } })],
  },
  RegistryGatewayAllNodesDown: { upstreams: [upstream("a", { nodes: [{ ...NODE, state: "ejected" }] })] },
  RegistryGatewayCallsFail: ({ upstreamCalls }) =>
    upstreamCalls.inc({ upstream: "a", kind: "other", outcome: "failed" }, 3),
  RegistryGatewayNodeDown: {
    upstreams: [upstream("a", { state: "degraded", nodes: [NODE, { ...NODE, state: "ejected" }] })],
  },
  RegistryGatewayRegistrySlow: ({ upstreamDuration }) => {
    for (let i = 0; i < 10; i++) upstreamDuration.labels({ upstream: "a", kind: "other" }).observe(3);
  },
  RegistryGatewayMetadataFails: ({ upstreamCalls }) =>
    upstreamCalls.inc({ upstream: "a", kind: "metadata", outcome: "failed" }, 3),
  RegistryGatewayRegistryErrors: ({ upstreamCalls }) => {
    upstreamCalls.inc({ upstream: "a", kind: "other", outcome: "failed" }, 10);
    upstreamCalls.inc({ upstream: "a", kind: "other", outcome: "answered" }, 90);
  },
  RegistryGatewayBreakerOpen: { upstreams: [upstream("a", { breaker: "half-open" })] },
  RegistryGatewaySheds: ({ upstreamRefused }) => upstreamRefused.inc({ upstream: "a", reason: "queue" }, 1),
  RegistryGatewayRateLimitNearlyUsed: {
    upstreams: [upstream("a", { budget: { requests: 100, perMs: 60_000 }, budgetLeft: 9 })],
  },
  RegistryGatewayNodeOutOfStep: ({ nodeOutOfStep }) => nodeOutOfStep.inc({ upstream: "a", node: "0" }, 1),
  RegistryGatewaySupportedApisChanged: ({ supportedApisChanges }) => supportedApisChanges.inc({ upstream: "a" }, 1),
  RegistryGatewayCredentialUnusable: ({ credentialUnusable }) =>
    credentialUnusable.set({ upstream: "a", key: "tls" }, 1),
  RegistryGatewayErrorBudgetBurnsFast: ({ requests }) => {
    requests.inc({ operation: "info", upstream: "a", status: "5xx" }, 2);
    requests.inc({ operation: "info", upstream: "a", status: "2xx" }, 98);
  },
  RegistryGatewaySlow: ({ requestDuration }) => {
    for (let i = 0; i < 100; i++)
      requestDuration.labels({ operation: "info", outcome: "hit" }).observe(i < 2 ? 0.2 : 0.001);
  },
  RegistryGatewayStaleAnswers: ({ cacheAnswers }) =>
    cacheAnswers.inc({ upstream: "a", operation: "info", outcome: "stale" }, 20),
  RegistryGatewayRedisAway: {
    redis: { configured: true, state: "away", lastError: "refused" } as ProcessStatus["redis"],
  },
  RegistryGatewayRedisRefusesWrites: {
    redis: { configured: true, state: "up", pendingPurges: 0 } as ProcessStatus["redis"],
  },
  RegistryGatewayClocksApart: {
    redis: { configured: true, state: "up", pendingPurges: 0, clockAheadMs: -3_000 } as ProcessStatus["redis"],
  },
  RegistryGatewayOperationsTokenUnusable: { operatorFaults: new Map([["ada", "is empty"]]) },
  RegistryGatewayReplicaGone: {
    redis: { configured: true, state: "up" } as ProcessStatus["redis"],
    replicasLost: ["b/2"],
  },
  RegistryGatewayReplicasDiffer: { replicaDifferences: ["b follows another configuration than a"] },
  RegistryGatewaySealsBroken: ({ redisRejectedValues }) =>
    redisRejectedValues.inc({ value: "entry", reason: "seal" }, 4),
  RegistryGatewayOverloaded: ({ shedding }) => shedding.set(1),
  RegistryGatewayEventLoopBusy: ({ eventLoopActive }) => eventLoopActive.inc(60),
  RegistryGatewayLogLinesDropped: ({ logLinesDropped }) => logLinesDropped.inc(3),
  RegistryGatewayReloadFailed: { lastReload: { result: "refused", problems: [] } },
  RegistryGatewayClientKeysUnusable: ({ clientKeysUnusable }) => clientKeysUnusable.set({ source: "file" }, 1),
  RegistryGatewayListenerCertificateUnusable: ({ listenerTlsUnusable }) => listenerTlsUnusable.set(1),
  RegistryGatewayCertificateEnded: { certificates: [{ role: "listener", expiresAt: "1970-01-01T00:00:00Z" }] },
  RegistryGatewayCertificateEnds: {
    certificates: [{ role: "listener", expiresAt: new Date(new ManualClock().wallNow() + 86_400_000).toISOString() }],
  },
  RegistryGatewayCertificateEndsSoon: {
    certificates: [
      { role: "listener", expiresAt: new Date(new ManualClock().wallNow() + 10 * 86_400_000).toISOString() },
    ],
  },
  RegistryGatewayRegistryWaitsForApproval: {
    discovery: { registries: [{ state: "waiting" } as DiscoveryReport["registries"][number]] },
  },
  RegistryGatewayDiscoverySourceFails: {
    discovery: { sources: [{ name: "lists.example", lastRun: null, lastError: "refused", found: 0 }] },
  },
  RegistryGatewayRegistriesGoneFromList: {
    discovery: { registries: [{ state: "gone" } as DiscoveryReport["registries"][number]] },
  },
  RegistryGatewayPinFileUnusable: { discovery: { pinFileError: "it is a folder" } },
};

describe("what an alert is for", () => {
  test("is seen by the process itself, but for what takes hours or all replicas", () => {
    const seen = CONDITIONS.filter(({ find }) => find !== "outside").map(({ alert }) => alert);
    expect(Object.keys(SCENES).toSorted()).toEqual(seen.toSorted());
    const pages = CONDITIONS.filter(({ find, severity }) => find === "outside" && severity === "page");
    // Nobody is there to say it.
    expect(pages.map(({ alert }) => alert)).toEqual(["RegistryGatewayAbsent"]);
  });

  test.each(Object.entries(SCENES))("is never kept from the sentence: %s", async (alert, scene) => {
    const gateway = new Gateway(typeof scene === "function" ? {} : scene);
    if (typeof scene === "function") scene(gateway.metrics);
    if (alert === "RegistryGatewayRedisRefusesWrites") gateway.metrics.redisCommands.inc({ outcome: "error" }, 10);
    const { findings, sentence } = await gateway.lookLater();
    const { severity } = CONDITIONS.find((each) => each.alert === alert)!;
    expect(findings).toContainEqual(expect.objectContaining({ id: alert, severity }));
    expect(sentence).not.toMatch(/^(All 2 registries are|The registry is) well\.$/);
  });
});

test("what was counted more than ten minutes ago is over", async () => {
  const gateway = new Gateway();
  const report = gateway.report;
  report.start();
  gateway.metrics.upstreamCalls.inc({ upstream: "a", kind: "other", outcome: "failed" }, 9);
  expect((await gateway.look()).findings).not.toEqual([]);
  for (let i = 0; i < 22; i++) gateway.clock.advance(30_000);
  expect((await gateway.look()).findings).toEqual([]);
  report.stop();
});

test("what failed before at a registry that is gone is no failure of now", async () => {
  const gateway = new Gateway({ upstreams: [upstream("b")] });
  const { requests, cacheAnswers } = gateway.metrics;
  const count = (name: string, failed: number, right: number) => {
    requests.inc({ operation: "info", upstream: name, status: "5xx" }, failed);
    requests.inc({ operation: "info", upstream: name, status: "2xx" }, right);
    cacheAnswers.inc({ operation: "info", upstream: name, outcome: "stale" }, failed);
    cacheAnswers.inc({ operation: "info", upstream: name, outcome: "hit" }, right);
  };
  count("a", 5_000, 0);
  count("b", 500, 1_000);
  gateway.report.start();
  for (let i = 0; i < 22; i++) gateway.clock.advance(30_000);
  await gateway.look();
  await forgetUpstreams(gateway.registry, new Set(["b"]));
  count("b", 0, 1_000);
  expect((await gateway.look()).findings).toEqual([]);
  gateway.report.stop();
});

test("of hundreds that fail, twenty are listed and all are counted", async () => {
  const upstreams = Array.from({ length: 300 }, (_, i) => upstream(`r${i}`, { breaker: "open" }));
  const { findings, more, sentence } = await new Gateway({ upstreams }).look();
  expect([findings.length, more]).toEqual([20, 580]);
  expect(sentence).toMatch(/^0 of 300 registries are well\. r0 fails, .* And 599 more things to look at\.$/);
});

test("a registry that is disabled on purpose is said, and no alarm", async () => {
  const { severity, sentence, findings } = await new Gateway({
    upstreams: [upstream("a"), upstream("off", { state: "disabled" })],
  }).look();
  expect([severity, sentence]).toEqual([null, "1 of 2 registries are well; nothing needs you."]);
  expect(findings).toMatchObject([{ id: "disabled", severity: "info", text: "off is disabled." }]);
});

test("a registry of which every node failed last is said before its breaker opens", async () => {
  const failing = { ...NODE, lastError: "it refused the connection" };
  const { sentence } = await new Gateway({
    upstreams: [upstream("a", { lastError: failing.lastError, nodes: [failing] })],
  }).look();
  expect(sentence).toBe(
    "The registry is not well. Every node of a failed when it was asked last: it refused the connection.",
  );
});

test("a registry that hangs is down since its breaker opened, also while the breaker lets a call through for a try", async () => {
  const gateway = new Gateway({ upstreams: [upstream("a", { breaker: "open" })] });
  const { since } = (await gateway.look()).findings[0]!;
  for (const breaker of ["half-open", "open", "half-open"] as const) {
    gateway.clock.advance(2 * 60_000);
    gateway.scene = { upstreams: [upstream("a", { breaker })] };
    const { findings } = await gateway.look();
    expect(findings).toContainEqual(expect.objectContaining({ id: "RegistryGatewayAllNodesDown", since }));
  }
  expect((await gateway.look()).severity).toBe("page");
});

// Each was said for ever, to whom had done what the runbook says.
test.each<[string, Partial<Upstream>, string]>([
  [
    "a node that is out and that an operator cordoned",
    { state: "degraded", nodes: [NODE, { ...NODE, state: "ejected", cordoned: true }] },
    "RegistryGatewayNodeDown",
  ],
  [
    "a registry that is down and that an operator put into cache-only mode",
    { state: "failing", breaker: "open", mode: "cache-only" },
    "RegistryGatewayAllNodesDown",
  ],
])("%s is no alarm", async (_what, change, alert) => {
  const { findings } = await new Gateway({ upstreams: [upstream("a", change)] }).lookLater();
  expect(findings.map(({ id }) => id)).not.toContain(alert);
});

test("a registry whose last node an operator cordoned on purpose is not said to be well", async () => {
  const { severity, sentence } = await new Gateway({
    upstreams: [upstream("a", { nodes: [{ ...NODE, cordoned: true }] }), upstream("b")],
  }).look();
  expect([severity, sentence]).toEqual([
    "warning",
    "1 of 2 registries are well. Every node of a is cordoned: nothing is asked of it.",
  ]);
});
