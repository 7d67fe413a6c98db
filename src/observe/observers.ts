import type { CacheObserver } from "../cache/observer.ts";
import type { MemoryStore } from "../cache/stores/memory-store.ts";
import type { TieredLimitsOptions } from "../clients/client-limits.ts";
import type { Clock, Duration } from "../clock.ts";
import type { CertificateStatus } from "../config/certificates.ts";
import { addressOf } from "../config/urls.ts";
import { CHANGE_TYPES, type ChangeType } from "../spec/schemas.ts";
import type { Coordination } from "../sharing/coordination.ts";
import type { RedisObserver } from "../sharing/redis/observer.ts";
import { COMMAND_OUTCOMES, type CommandOutcome } from "../sharing/redis/observer.ts";
import { fieldValue } from "../fields.ts";
import type { ListenerCertificateOptions } from "../connections/listener-certificate.ts";
import type { ContextsObserver } from "../registry/contexts.ts";
import type { MetadataObserver } from "../registry/registry-metadata.ts";
import { isCached, type Operation } from "../spec/operations.ts";
import type { UpstreamObserver } from "../upstream/observer.ts";
import type { Config } from "../config/schema.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import { type ClientsObserver, createClientsObserver } from "./client-observers.ts";
import type { Logger } from "./log.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { thisReplica } from "../version.ts";
import { announce, forgetUpstreams } from "./metrics/announcement.ts";
import type { CounterChild } from "./metrics/batches.ts";
import { ClientTraffic } from "./metrics/client-traffic.ts";
import type { CallKind } from "./metrics/labels.ts";
import type { LiveRegistry } from "./metrics/live-registry.ts";
import { type GaugeSources, refreshGauges } from "./metrics/refresh.ts";
import { hashId, withoutSecrets } from "./redaction.ts";
import { traceCache } from "./tracing/traced-observers.ts";
import type { Tracing } from "./tracing/tracing.ts";
import { RecentRequests, RequestLog } from "./request-log.ts";
import { recordRefused, recordRequest, type RequestObservers } from "./request-record.ts";
import { Traffic } from "./traffic.ts";
import { whenChanged } from "./when-changed.ts";

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
export interface ObservedParts {
  readonly memory: MemoryStore;
  readonly contexts: GaugeSources["contexts"];
  readonly catalogue: GaugeSources["catalogue"];
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
  readonly changes: { changed(type: ChangeType): void };
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
      recordRefused: (refused) => recordRefused(refused, tracing, records),
    };
  }

  /** Observes upstreams; `current` says which place a node has in the configuration in use. */
  upstreams(current: () => Upstreams): UpstreamObserver {
    const { metrics, log, onAdminProved } = this.options;
    const observer = createUpstreamObserver(metrics, log, (name, url) => {
      return (
        current()
          .byName(name)
          ?.config.urls.findIndex((node) => addressOf(node).url === url) ?? -1
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
  readGauges({
    memory,
    contexts,
    catalogue,
    subscribers,
    overload,
    coordination,
    snapshot,
    certificates,
  }: ObservedParts): void {
    const { metrics, registry, clock } = this.options;
    registry.onRead(() => {
      const { upstreams, config } = snapshot();
      refreshGauges(metrics, {
        upstreams: upstreams.all,
        memory,
        contexts,
        catalogue,
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

function kindOf(operation: Operation): CallKind {
  return isCached(operation) ? "metadata" : "other";
}

/** The place of a node in its upstream's list, from 0; -1 where it is no longer there. */
export type NodeIndex = (upstream: string, url: string) => number;

/**
 * Counts what happens on the way to upstreams, and logs changes of state in one line each. Nodes are named by their
 * place in the configuration, parties by hashes: a log goes to more people than the configuration does.
 */
function createUpstreamObserver(metrics: Metrics, log: Logger, nodeIndex: NodeIndex): UpstreamObserver {
  return { ...observeCalls(metrics, log), ...observeStates(metrics, log, nodeIndex) };
}

function observeCalls(metrics: Metrics, log: Logger) {
  return {
    called: (upstream, operation, outcome) => metrics.upstreamCalls.inc({ upstream, kind: kindOf(operation), outcome }),
    attempt(event) {
      const { upstream, operation, outcome, reason, seconds: value, traceId } = event;
      metrics.upstreamAttempts.inc({ upstream, outcome });
      const labels = { upstream, kind: kindOf(operation) };
      if (traceId === undefined) metrics.upstreamDuration.labels(labels).observe(value);
      else metrics.upstreamDuration.observe({ labels, value, exemplarLabels: { trace_id: traceId } });
      if (reason !== undefined) metrics.upstreamFailures.inc({ upstream, reason });
      if (!log.isLevelEnabled("debug")) return;
      const { kind, node, status, fields } = event;
      const requestId = fieldValue(fields, "x-request-id");
      const durationMs = Math.round(value * 1e6) / 1e3;
      log.debug({ requestId, upstream, operation, node, kind, outcome, reason, status, durationMs }, "attempt ended");
    },
    retry: (upstream) => metrics.upstreamRetries.inc({ upstream }),
    retryBudgetExhausted: (upstream) => metrics.retriesExhausted.inc({ upstream }),
    hedge: (upstream, result) => metrics.upstreamHedges.inc({ upstream, result }),
    refused(upstream, reason) {
      metrics.upstreamRefused.inc({ upstream, reason });
      if (log.isLevelEnabled("debug")) log.debug({ upstream, reason }, "call refused");
    },
    rationed(upstream, share, isNew) {
      if (isNew) log.warn({ upstream, share }, "upstream answered 429: calling it less");
    },
  } satisfies Partial<UpstreamObserver>;
}

function observeStates(metrics: Metrics, log: Logger, nodeIndex: NodeIndex) {
  return {
    check: (upstream, _node, outcome) => metrics.upstreamChecks.inc({ upstream, outcome }),
    nodeState(upstream, url, { from, to, why }) {
      if (to === "ejected") metrics.upstreamEjections.inc({ upstream });
      const line = { upstream, node: nodeIndex(upstream, url), from, to, reason: withoutSecrets(why) };
      if (to === "up") log.info(line, "node state changed");
      else log.warn(line, "node state changed");
    },
    upstreamState(upstream, { from, to, why }) {
      const line = { upstream, from, to, reason: withoutSecrets(why) };
      if (to === "up") log.info(line, "upstream state changed");
      else if (to === "wrong-admin" || to === "disabled") log.error(line, "upstream state changed");
      else log.warn(line, "upstream state changed");
    },
    breaker(upstream, calls, { from, to, openFor, isNew }) {
      if (!isNew) return;
      const line = { upstream, calls, from, to, openForSeconds: Math.round(openFor / 1000) };
      if (to === "open") log.warn(line, "breaker state changed");
      else log.info(line, "breaker state changed");
    },
    adminProved(upstream, admin) {
      log.info({ upstream, admin: hashId(admin) }, "admin proved");
    },
    adminMismatch(upstream, url, { expected, named, isNew }) {
      if (!isNew) return;
      log.error(
        { upstream, node: nodeIndex(upstream, url), expected: hashId(expected), named: hashId(named) },
        "node names another admin",
      );
    },
    outOfStep(upstream, url, fault) {
      const node = nodeIndex(upstream, url);
      metrics.nodeOutOfStep.inc({ upstream, node: String(node) });
      log.error({ upstream, node, fault }, "node answers out of step");
    },
    agreement(upstream, { operation, outcome, questions, waited }) {
      metrics.agreements.inc({ upstream, kind: kindOf(operation), outcome });
      metrics.agreementQuestions.inc({ upstream }, questions);
      if (outcome === "agreed") metrics.agreementWait.inc({ upstream }, waited / 1_000);
    },
    differed(upstream, { operation, nodes, parts }, isNew) {
      const line = { upstream, operation, nodes: nodes.map((group) => group.join(" ")), parts };
      if (isNew) log.error(line, "nodes say different things");
      else log.debug(line, "nodes say different things");
    },
    supportedApisChanged(upstream, { added, removed }) {
      metrics.supportedApisChanges.inc({ upstream });
      const line = { upstream, added: added.map(withoutSecrets), removed: removed.map(withoutSecrets) };
      log.warn(line, "supportedApis changed");
    },
    credential(upstream, key, { fault, isNew }) {
      metrics.credentialUnusable.set({ upstream, key }, fault === undefined ? 0 : 1);
      if (!isNew) return;
      if (fault === undefined) log.info({ upstream, key }, "credential can be used again");
      else log.error({ upstream, key, reason: withoutSecrets(fault) }, "credential cannot be used");
    },
  } satisfies Partial<UpstreamObserver>;
}

/** Counts what happens between this process and Redis, and logs when it comes and goes. */
export function createRedisObserver(metrics: Metrics, log: Logger): RedisObserver {
  metrics.redisConfigured.set(1);
  // For every look-up: their children are looked up once.
  const commands = Object.fromEntries(
    COMMAND_OUTCOMES.map((outcome) => [outcome, metrics.redisCommands.labels({ outcome })]),
  ) as Record<CommandOutcome, CounterChild>;
  const durations = metrics.redisDuration.labels({});
  const purgeLag = metrics.purgeLag.labels({});
  return {
    stateChanged(state, reason) {
      metrics.redisUp.set(state === "up" ? 1 : 0);
      const line = { to: state, reason: withoutSecrets(reason) };
      if (state === "up") log.info(line, "Redis state changed");
      else log.warn(line, "Redis state changed");
    },
    connectionFailed: (why) => log.error({ reason: withoutSecrets(`Redis ${why}`) }, "Redis cannot be connected to"),
    commandEnded(_name, outcome, duration) {
      commands[outcome].inc();
      durations.observe(duration / 1000);
    },
    writeDropped: () => metrics.redisDroppedWrites.inc(),
    valueRejected: (value, reason) => metrics.redisRejectedValues.inc({ value, reason }),
    sealKeyLooked: whenChanged<string | undefined>(undefined, (fault) => {
      if (fault === undefined) log.info({}, "seal key can be used again");
      else log.error({ reason: withoutSecrets(fault) }, "seal key cannot be used");
    }),
    clockCompared: (ahead) => metrics.redisClockOffset.set(ahead / 1000),
    purgeArrived: (lag) => purgeLag.observe(lag / 1000),
  };
}
