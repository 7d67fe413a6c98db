import type { MemoryStore } from "../../cache/stores/memory-store.ts";
import type { CertificateStatus } from "../../config/certificates.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import type { LeaseStatus } from "../../sharing/redis/leases.ts";
import type { BreakerState } from "../../limits/circuit-breaker.ts";
import {
  type AgreementStatus,
  COUNTED_STATES,
  countedState,
  UPSTREAM_MODES,
  UPSTREAM_STATES,
  type UpstreamStatus,
} from "../../upstream/status.ts";
import type { Metrics } from "../metrics.ts";
import type { Traffic } from "../traffic.ts";
import type { Definition } from "./definition.ts";
import { CATALOGUE_BOUND, type CatalogueBound } from "./labels.ts";
import { type MetricKey, METRICS } from "./table.ts";

/** What the gauges show. */
export interface GaugeSources {
  readonly upstreams: readonly { readonly config: UpstreamConfig; status(): UpstreamStatus }[];
  readonly memory: Pick<MemoryStore, "bytes" | "entries">;
  /** Of factories and choice contexts. */
  readonly contexts: { readonly bytes: number };
  /** Of the instruments that are searched; of a registry by its admin. */
  readonly catalogue: {
    readonly size: number;
    kept(admin: string): { readonly instruments: number; readonly cutShortBy: CatalogueBound | undefined } | undefined;
  };
  readonly maxBytes: number;
  readonly traffic: Traffic;
  /** Of no upstream. */
  readonly certificates: readonly CertificateStatus[];
  /** Unix time in milliseconds. */
  readonly wallNow: number;
  readonly redis: { readonly configured: false } | { readonly configured: true; readonly leases: LeaseStatus };
}

/** Values of the breaker's gauge. */
const BREAKER_VALUE: Readonly<Record<BreakerState, number>> = { closed: 0, "half-open": 1, open: 2 };

type GaugeKey = {
  [Key in MetricKey]: (typeof METRICS)[Key] extends { readonly type: "gauge" } ? Key : never;
}[MetricKey];

const SET_WHEN_READ = Object.entries<Definition>(METRICS)
  .filter(([, { resetBy }]) => resetBy === "reading")
  .map(([key]) => key as GaugeKey);

/** Sets the gauges to what is so now. */
export function refreshGauges(metrics: Metrics, sources: GaugeSources): void {
  const { upstreams, memory, catalogue, maxBytes, traffic, redis } = sources;
  // A reload may have taken upstreams, nodes or certificates away.
  for (const key of SET_WHEN_READ) metrics[key].reset();
  metrics.cacheBytes.set(memory.bytes);
  metrics.cacheEntries.set(memory.entries);
  metrics.cacheMaxBytes.set(maxBytes);
  metrics.leases.set({ state: "held" }, redis.configured ? redis.leases.held : 0);
  metrics.leases.set({ state: "awaited" }, redis.configured ? redis.leases.awaited : 0);
  metrics.requestsInFlight.set(traffic.requestsInFlight);
  metrics.connections.set(traffic.connections);
  metrics.catalogueBytes.set(catalogue.size);
  metrics.contextBytes.set(sources.contexts.bytes);
  refreshCertificates(metrics, "none", sources.certificates, sources.wallNow);
  for (const { config, status } of upstreams.map((each) => ({ config: each.config, status: each.status() }))) {
    refreshUpstream(metrics, config, status);
    refreshCatalogue(metrics, status, catalogue);
    refreshCertificates(metrics, status.name, status.certificates, sources.wallNow);
  }
}

function refreshCatalogue(
  metrics: Metrics,
  { name: upstream, admin }: UpstreamStatus,
  catalogue: GaugeSources["catalogue"],
): void {
  const kept = admin === undefined ? undefined : catalogue.kept(admin);
  if (kept === undefined) return;
  for (const reason of CATALOGUE_BOUND) {
    metrics.catalogueCutShort.set({ upstream, reason }, kept.cutShortBy === reason ? 1 : 0);
  }
}

function refreshCertificates(
  metrics: Metrics,
  upstream: string,
  certificates: readonly CertificateStatus[],
  wallNow: number,
): void {
  for (const { role, expiresAt } of certificates) {
    metrics.certificateExpiry.set({ upstream, role }, (Date.parse(expiresAt) - wallNow) / 1000);
  }
}

/** One node is enough. */
const NOTHING_TO_AGREE: AgreementStatus = { needed: 1, agreeing: 1, isReached: true };

function refreshUpstream(metrics: Metrics, config: UpstreamConfig, status: UpstreamStatus): void {
  const upstream = status.name;
  for (const state of UPSTREAM_STATES) metrics.upstreamState.set({ upstream, state }, status.state === state ? 1 : 0);
  for (const state of COUNTED_STATES) {
    metrics.upstreamNodes.set({ upstream, state }, status.nodes.filter((node) => countedState(node) === state).length);
  }
  for (const mode of UPSTREAM_MODES) metrics.upstreamMode.set({ upstream, mode }, status.mode === mode ? 1 : 0);
  for (const [place, { cordoned }] of status.nodes.entries()) {
    const node = String(place);
    metrics.nodeCordoned.set({ upstream, node }, cordoned ? 1 : 0);
    // A counter that appears with its first event has already lost it.
    metrics.nodeOutOfStep.inc({ upstream, node }, 0);
  }
  const { needed, agreeing, isReached } = status.agreement ?? NOTHING_TO_AGREE;
  metrics.agreementMissing.set({ upstream }, isReached ? 0 : Math.max(1, needed - agreeing));
  metrics.adminContested.set({ upstream }, status.isContested ? 1 : 0);
  metrics.breakerState.set({ upstream }, BREAKER_VALUE[status.breaker]);
  metrics.upstreamInFlight.set({ upstream }, status.running);
  metrics.upstreamQueued.set({ upstream }, status.queued);
  metrics.upstreamMaxInFlight.set({ upstream }, config.concurrency.max);
  if (config.rateLimit === undefined || status.budgetLeft === undefined) return;
  metrics.rateLimit.set({ upstream }, config.rateLimit.requests);
  metrics.rateLimitLeft.set({ upstream }, status.budgetLeft);
}
