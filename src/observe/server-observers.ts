import type { CacheObserver } from "../cache/observer.ts";
import type { MemoryStore } from "../cache/stores/memory-store.ts";
import type { Clock } from "../clock.ts";
import type { Coordination } from "../coordination/coordination.ts";
import type { RequestObservers } from "../http/context.ts";
import type { Snapshot } from "../http/snapshot.ts";
import type { Overload, OverloadOptions } from "../http/workload.ts";
import type { MetadataObserver } from "../registry/registry-metadata.ts";
import type { UpstreamObserver } from "../upstream/observer.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import type { Logger } from "./log.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { announce, forgetUpstreams } from "./metrics/announcement.ts";
import { ClientTraffic } from "./metrics/client-traffic.ts";
import type { LiveRegistry } from "./metrics/live-registry.ts";
import { refreshGauges } from "./metrics/refresh.ts";
import { Traffic } from "./metrics/traffic.ts";
import { createCacheObserver, createMetadataObserver, createUpstreamObserver } from "./observers.ts";
import { recordRefused, recordRequest } from "./request-record.ts";
import { traceCache } from "./tracing/traced-observers.ts";
import type { Tracing } from "./tracing/tracing.ts";

export interface ServerObserverOptions {
  readonly metrics: Metrics;
  readonly registry: LiveRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
  readonly tracing: Tracing | undefined;
  /** Told as soon as an upstream's admin is known. */
  readonly onAdminProved?: (upstream: string, admin: string) => void;
}

/** What the gauges show of a server; asked when the metrics are read. */
export interface ObservedParts {
  readonly memory: MemoryStore;
  readonly overload: Overload;
  readonly coordination: Pick<Coordination, "redisStatus">;
  readonly snapshot: () => Snapshot;
}

/** The metrics of a process, with what is so from its start. */
export function createInstruments(version: string, clock: Clock): { metrics: Metrics; registry: LiveRegistry } {
  const instruments = createMetrics();
  const { metrics } = instruments;
  metrics.buildInfo.set({ version }, 1);
  metrics.lastReloadGood.set(1);
  metrics.lastReloadTime.set(clock.wallNow() / 1000);
  return instruments;
}

/** What the parts of a process that answers clients tell of their work, as metrics, log lines and traces. */
export class ServerObservers {
  readonly cache: CacheObserver;
  readonly metadata: MetadataObserver;
  readonly overload: Pick<OverloadOptions, "onChange" | "onShed">;
  readonly requests: RequestObservers;
  readonly traffic: Traffic;
  private readonly options: ServerObserverOptions;

  constructor(options: ServerObserverOptions) {
    const { metrics, log, clock, random, tracing } = options;
    const cache = createCacheObserver(metrics);
    const traffic = new Traffic(metrics);
    this.options = options;
    this.cache = tracing === undefined ? cache : traceCache(cache, tracing);
    this.metadata = createMetadataObserver(metrics);
    this.overload = {
      onChange(isShedding, delay) {
        const line = { delayMs: Math.round(delay) };
        if (isShedding) log.warn(line, "too much to do: misses and calls are refused");
        else log.info(line, "misses and calls are answered again");
      },
      onShed: (kind) => metrics.shedRequests.inc({ kind }),
    };
    const clients = new ClientTraffic({ metrics, onRefused: (refused) => log.warn(refused, "client refused") });
    const records = { traffic, clients, log, clock, random };
    this.traffic = traffic;
    this.requests = {
      log,
      traffic,
      tracing,
      metadata: this.metadata,
      clients,
      record: (context) => recordRequest(context, records),
      recordRefused: (refused) => recordRefused(refused, tracing, records),
    };
  }

  /** Observes upstreams; `current` tells which place a node has in the configuration in use. */
  upstreams(current: () => Upstreams): UpstreamObserver {
    const { metrics, log, onAdminProved } = this.options;
    const observer = createUpstreamObserver(metrics, log, (name, url) => {
      return current().byName(name)?.config.urls.indexOf(url) ?? -1;
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
  readGauges({ memory, overload, coordination, snapshot }: ObservedParts): void {
    const { metrics, registry } = this.options;
    registry.onRead(() => {
      const { upstreams, config } = snapshot();
      metrics.eventLoopDelay.set(overload.delay / 1000);
      metrics.shedding.set(overload.isShedding ? 1 : 0);
      refreshGauges(metrics, {
        upstreams: upstreams.all,
        memory,
        maxBytes: config.cache.memory.maxBytes,
        traffic: this.traffic,
        redis: coordination.redisStatus(),
      });
    });
  }
}
