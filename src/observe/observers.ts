import type { CacheObserver } from "../cache/resource.ts";
import type { TieredLimitsOptions } from "../clients/client-limits.ts";
import type { Clock, Duration } from "../clock.ts";
import type { CertificateStatus } from "../config/certificates.ts";
import { nodeAddressOf } from "../config/urls.ts";
import { CHANGE_TYPES, type ChangeType } from "../spec/schemas.ts";
import type { Coordination } from "../sharing/coordination.ts";
import type { ListenerCertificateOptions } from "../connections/tls.ts";
import type { ContextsObserver } from "../registry/contexts.ts";
import type { MetadataObserver } from "../registry/registry-metadata.ts";
import type { UpstreamObserver } from "../upstream/observer.ts";
import type { Config } from "../config/schema.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import { type ClientsObserver, createClientsObserver } from "./client-observers.ts";
import type { Logger } from "./log.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { thisReplica } from "../version.ts";
import { announce, forgetUpstreams, type LiveRegistry } from "./metrics/live-registry.ts";
import { ClientTraffic } from "./metrics/client-traffic.ts";
import { type GaugeSources, refreshGauges } from "./metrics/refresh.ts";
import { withoutSecrets } from "./redaction.ts";
import { traceCache } from "./tracing/traced-observers.ts";
import type { Tracing } from "./tracing/tracing.ts";
import { RecentRequests, RequestLog } from "./request-log.ts";
import { recordRequest, type RequestObservers } from "./request-record.ts";
import { Traffic } from "./traffic.ts";
import { createUpstreamObserver } from "./upstream-observer.ts";
import { whenChanged } from "../recurrence.ts";

export interface ServerObserverOptions {
  readonly metrics: Metrics;
  readonly registry: LiveRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
  readonly tracing: Tracing | undefined;
  /** Called as soon as an upstream's admin is known. */
  readonly onAdminProved?: (upstream: string, admin: string) => void;
}

/** What the gauges show of a server; asked when the metrics are read. */
export interface ObservedParts extends Pick<GaugeSources, "memory" | "contexts" | "catalogue"> {
  readonly subscribers: () => number;
  /** Whether work is refused, and how late the event loop was when it was last looked at. */
  readonly overload: { readonly isShedding: boolean; readonly delay: Duration };
  readonly coordination: Pick<Coordination, "redisStatus">;
  readonly snapshot: () => { readonly upstreams: Upstreams; readonly config: Config };
  /** Of the process itself, those of upstreams apart. */
  readonly certificates: () => readonly CertificateStatus[];
}

/** The metrics of a process, with what is so from its start; with exemplars where requests are traced. */
export function createInstruments(
  version: string,
  options: { readonly exemplars: boolean },
): { metrics: Metrics; registry: LiveRegistry } {
  const instruments = createMetrics(options);
  const { metrics } = instruments;
  metrics.buildInfo.set({ version, revision: thisReplica.revision }, 1);
  metrics.lastReloadGood.set(1);
  return instruments;
}

function observeCertificate({
  metrics,
  log,
}: ServerObserverOptions): Pick<ListenerCertificateOptions, "onLook" | "onOutOfTime" | "onReplaced"> {
  return {
    onLook: whenChanged<string | undefined>(undefined, (fault) => {
      metrics.listenerTlsUnusable.set(fault === undefined ? 0 : 1);
      if (fault === undefined) log.info({}, "listener certificate can be used again");
      else log.error({ reason: withoutSecrets(fault) }, "listener certificate cannot be used");
    }),
    onOutOfTime: (reason) => log.warn({ reason }, "listener certificate is out of its time"),
    onReplaced: (now) =>
      log.info({ expiresAt: now.find(({ role }) => role === "listener")?.expiresAt }, "listener certificate replaced"),
  };
}

/** What the parts of a process that answers clients say of their work, as metrics, log lines and traces. */
export class ServerObservers {
  readonly cache: CacheObserver;
  readonly metadata: MetadataObserver;
  readonly contexts: ContextsObserver;
  readonly changes: { changed(type: ChangeType): void; failed(upstream: string, fault: unknown): void };
  readonly overload: {
    onChange(isShedding: boolean, delay: Duration): void;
    onShed(kind: "metadata" | "call"): void;
  };
  readonly requests: RequestObservers;
  readonly certificate: Pick<ListenerCertificateOptions, "onLook" | "onOutOfTime" | "onReplaced">;
  readonly clients: ClientsObserver;
  readonly spared: TieredLimitsOptions["onSpared"];
  readonly traffic: Traffic;
  private readonly options: ServerObserverOptions;

  constructor(options: ServerObserverOptions) {
    const { metrics, log, clock, random, tracing } = options;
    const cache = createCacheObserver(metrics);
    const traffic = new Traffic(metrics);
    this.options = options;
    this.cache = tracing === undefined ? cache : traceCache(cache, tracing);
    this.metadata = createMetadataObserver(metrics);
    this.contexts = { callSpared: (upstream, by) => metrics.callsSpared.inc({ upstream, by }) };
    this.changes = {
      // A later release may know others.
      changed(type) {
        if (CHANGE_TYPES.includes(type)) metrics.changes.inc({ type });
      },
      failed: (upstream, err) => log.error({ upstream, err }, "changes of a registry cannot be reported"),
    };
    this.overload = {
      onChange(isShedding, delay) {
        const line = { delayMs: Math.round(delay) };
        if (isShedding) log.warn(line, "too much to do: misses and calls are refused");
        else log.info(line, "misses and calls are answered again");
      },
      onShed: (kind) => metrics.shedRequests.inc({ kind }),
    };
    this.clients = createClientsObserver(metrics, log);
    const clients = new ClientTraffic({
      metrics,
      onRefused: (refused) => log.warn(refused, "client refused"),
      onSpared: (spared) => log.warn(spared, "client over its limit was let in"),
    });
    this.spared = (client, reason) => clients.spared(client, reason, clock.now());
    const recent = new RecentRequests(clock);
    const lines = new RequestLog(log, recent);
    const records = { traffic, clients, lines, clock, random };
    this.certificate = observeCertificate(options);
    this.traffic = traffic;
    this.requests = {
      log,
      traffic,
      tracing,
      metadata: this.metadata,
      clients,
      recent,
      lines,
      record: (context) => recordRequest(context, records),
    };
  }

  /** Observes upstreams; `current` says which place a node has in the configuration in use. */
  upstreams(current: () => Upstreams): UpstreamObserver {
    const { metrics, log, onAdminProved } = this.options;
    const observer = createUpstreamObserver(metrics, log, (name, url) => {
      return (
        current()
          .byName(name)
          ?.config.urls.findIndex((node) => nodeAddressOf(node).url === url) ?? -1
      );
    });
    if (onAdminProved === undefined) return observer;
    return {
      ...observer,
      adminProved(upstream, admin) {
        observer.adminProved(upstream, admin);
        onAdminProved(upstream, admin);
      },
    };
  }

  /** Lets the metrics show these upstreams, and forget those that a reload took away. */
  show(after: Upstreams, before: Upstreams = after): void {
    const { registry } = this.options;
    const names = new Set(after.all.map(({ name }) => name));
    if (before.all.some(({ name }) => !names.has(name))) {
      this.traffic.forgetRecorders();
      void forgetUpstreams(registry, names);
    }
    announce(registry, [...names]);
  }

  /** Lets the gauges show, whenever they are read, how things are then. */
  readGauges({ subscribers, overload, coordination, snapshot, certificates, ...parts }: ObservedParts): void {
    const { metrics, registry, clock } = this.options;
    registry.onRead(() => {
      const { upstreams, config } = snapshot();
      refreshGauges(metrics, {
        ...parts,
        upstreams: upstreams.all,
        maxBytes: config.cache.memory.maxBytes,
        traffic: this.traffic,
        redis: coordination.redisStatus(),
        certificates: certificates(),
        wallNow: clock.wallNow(),
      });
      metrics.subscribers.set(subscribers());
      metrics.eventLoopDelay.set(overload.delay / 1000);
      metrics.shedding.set(overload.isShedding ? 1 : 0);
    });
  }
}

/** Counts what the cache does. */
function createCacheObserver(metrics: Metrics): CacheObserver {
  return {
    skipped: (_key, reason) => metrics.cacheSkips.inc({ reason }),
    servedStale: (_key, reason) => metrics.cacheStale.inc({ reason }),
    refreshed: (_key, result) => metrics.cacheRefreshes.inc({ result }),
    evicted: () => metrics.cacheEvictions.inc(),
    // Of interest to traces alone.
    lookup() {},
    collapsed() {},
  };
}

/** Counts what registries say and how they change. */
function createMetadataObserver(metrics: Metrics): MetadataObserver {
  const newest = new Map<string, number>();
  return {
    schemaViolated: (upstream, operation) => metrics.schemaViolations.inc({ upstream, operation }),
    supplySeen(upstream, asOf) {
      // Nodes and pages lag behind each other.
      if (asOf <= (newest.get(upstream) ?? -Infinity)) return;
      newest.set(upstream, asOf);
      metrics.supplyAsOf.set({ upstream }, asOf / 1000);
    },
  };
}
