import type { FastifyInstance } from "fastify";
import { createAggregation } from "./aggregate/aggregation.ts";
import { BodyReader } from "./bodies/body-reader.ts";
import { ListedPages } from "./bodies/listed-pages.ts";
import { HttpCache } from "./cache/http-cache.ts";
import { MemoryStore } from "./cache/stores/memory-store.ts";
import type { Clock, Duration } from "./clock.ts";
import type { Config } from "./config/schema.ts";
import type { Logger } from "./observe/log.ts";
import { SCOPES } from "./registry/metadata-key.ts";
import type { MetadataObserver } from "./registry/registry-metadata.ts";
import { BackgroundReader } from "./registry/background-reader.ts";
import type { Metrics } from "./observe/metrics.ts";
import { announce, forgetUpstreams } from "./observe/metrics/announcement.ts";
import type { LiveRegistry } from "./observe/metrics/live-registry.ts";
import { refreshGauges } from "./observe/metrics/refresh.ts";
import { Traffic } from "./observe/metrics/traffic.ts";
import { createCacheObserver, createMetadataObserver, createUpstreamObserver } from "./observe/observers.ts";
import { ClientConnections } from "./http/connections.ts";
import { createExplain, type Explain } from "./operations/explain.ts";
import { isAggregate } from "./http/plain.ts";
import { createPublicListener } from "./http/listener.ts";
import { purge, type PurgeResult } from "./operations/purge.ts";
import type { Runtime, Surroundings } from "./http/context.ts";
import { traceCache } from "./observe/tracing/traced-observers.ts";
import type { Tracing } from "./observe/tracing/tracing.ts";
import type { UpstreamObserver } from "./upstream/observer.ts";
import type { UpstreamStatus } from "./upstream/status.ts";
import { Upstreams } from "./upstream/upstreams.ts";
import { drain } from "./http/drain.ts";
import { handOver, needsNewListener } from "./http/hand-over.ts";
import { InFlight } from "./http/in-flight.ts";
import { refuseLate } from "./http/late-refusal.ts";
import { createOverload } from "./http/observed-overload.ts";
import type { LoopLoad, Overload } from "./http/overload.ts";
import { createRuntime } from "./snapshot.ts";
import type { RedisPart, Coordination } from "./coordination/coordination.ts";
import { shedCalls } from "./http/shedding.ts";
import { sleep, settledWithin } from "./deadline.ts";
import { openListener } from "./http/listening.ts";

export interface ServingOptions {
  readonly config: Config;
  readonly version: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
  readonly metrics: Metrics;
  readonly registry: LiveRegistry;
  readonly coordination: Coordination;
  readonly tracing: Tracing | undefined;
  /** Other workers of this gateway listen on the same port. */
  readonly isWorker?: boolean;
  /** How the event loop does; where it is not measured, nothing is ever shed. */
  readonly loop?: (() => LoopLoad) | undefined;
  /** Told as soon as an upstream's admin is known. */
  readonly onAdminProved?: ((upstream: string, admin: string) => void) | undefined;
}

/** The `cache` part of `/status`; the tier behind it is Redis, see {@link RedisPart}. */
export interface CachePart {
  readonly memory: { readonly entries: number; readonly bytes: number; readonly maxBytes: number };
}

/** How this part of a process is. */
export interface ServingStatus {
  readonly cache: CachePart;
  readonly redis: RedisPart;
  readonly upstreams: readonly UpstreamStatus[];
}

/** Upstreams that a reload replaced are kept for requests that began before it, but no longer. */
const RETIREMENT: Duration = 60_000;

/** How long a purge waits for the admin of an upstream to be known. */
const LEARN_TIMEOUT: Duration = 1_000;

/** How long a start waits for Redis, which may be away. */
const REDIS_PATIENCE: Duration = 1_000;

/** A refresh in the background that began just before a reload, and is no client's request, gets this long to call. */
const REFRESH_GRACE: Duration = 1_000;

/** What is left when the process ends may take this long to close. */
const CLOSE_TIMEOUT: Duration = 2_000;

function largestBody({ requestBody, responseBody }: Config["limits"]): number {
  return Math.max(requestBody, responseBody);
}

/** The part of a process that answers clients: cache, upstreams and public listener, and how they change and end. */
export class Serving {
  readonly surroundings: Surroundings;
  readonly explain: Explain;
  private readonly options: ServingOptions;
  private readonly memory: MemoryStore;
  private readonly cache: HttpCache;
  private readonly traffic: Traffic;
  private readonly upstreamObserver: UpstreamObserver;
  private readonly metadataObserver: MetadataObserver;
  private readonly listener: FastifyInstance;
  private readonly inFlight = new InFlight();
  private readonly overload: Overload;
  private readonly bodies: BodyReader;
  private readonly pages: ListedPages;
  private runtime: Runtime;
  private draining = false;

  /** @throws when a file that the configuration names cannot be read */
  constructor(options: ServingOptions) {
    const { config, log, clock, random, metrics, registry, coordination, tracing, version } = options;
    const { coordinator, store } = coordination;
    this.options = options;
    const counting = createCacheObserver(metrics);
    const cacheObserver = tracing === undefined ? counting : traceCache(counting, tracing);
    this.memory = new MemoryStore({ ...config.cache.memory, observer: cacheObserver });
    this.cache = new HttpCache({
      memory: this.memory,
      shared: store,
      coordinator,
      clock,
      random,
      observer: cacheObserver,
    });
    this.traffic = new Traffic(metrics);
    this.upstreamObserver = this.createUpstreamObserver();
    this.metadataObserver = createMetadataObserver(metrics);
    this.overload = createOverload(options);
    this.bodies = new BodyReader({ clock, largest: () => largestBody(this.config.limits) });
    this.pages = new ListedPages(this.bodies);
    this.runtime = this.assemble(config);
    this.announce();
    registry.onRead(() => this.refreshGauges());
    coordinator.onAnnounced((news) => this.upstreams.hear(news));
    const aggregation = createAggregation({ clock, coordinator });
    this.surroundings = {
      clock,
      random,
      log,
      metrics,
      traffic: this.traffic,
      tracing,
      version,
      bodies: this.bodies,
      aggregation,
      backgroundReader: new BackgroundReader({
        clock,
        random,
        registries: () => [...this.runtime.metadata.values()],
        isListing: () => isAggregate(this.runtime),
        listed: (listing) => aggregation.catalogue.take(listing),
      }),
      connections: new ClientConnections({
        clock,
        max: config.listen.maxConnections,
        onDropped: () => this.traffic.connectionDropped(),
        onClosed: (reason) => this.traffic.connectionCutOff(reason),
      }),
      isDraining: () => this.draining,
      runtime: () => this.runtime,
    };
    this.explain = createExplain(this.surroundings, this.cache);
    this.listener = this.createListener(config);
  }

  /** The configuration in use. */
  get config(): Config {
    return this.runtime.config;
  }

  get upstreams(): Upstreams {
    return this.runtime.upstreams;
  }

  /** The process is being stopped. */
  get isDraining(): boolean {
    return this.draining;
  }

  /** Listens; resolves with the port. Rejects when it cannot be had. */
  async start(): Promise<number> {
    this.runtime.upstreams.start();
    // The very first request is to find what other replicas have cached.
    await this.options.coordination.whenReady(REDIS_PATIENCE);
    const port = await openListener(
      this.listener,
      { ...this.config.listen, isShared: this.options.isWorker ?? false },
      "public",
    );
    this.surroundings.backgroundReader.start();
    this.overload.start();
    return port;
  }

  /**
   * Works with `next` from now on: for requests to come. What did not change is taken over as it is; what is gone ends
   * with the requests that began with it.
   *
   * Rejects when a file that `next` names cannot be read; everything is as it was then.
   */
  async reload(next: Config): Promise<void> {
    const { clock, log, registry } = this.options;
    const before = this.runtime;
    const after = this.assemble(next);
    this.runtime = after;
    after.upstreams.start();
    if (needsNewListener(before.config, next)) await handOver(this.listener, this.createListener(next));
    this.memory.resize(next.cache.memory);
    if (next.log.level !== before.config.log.level) log.level = next.log.level;
    const names = new Set(after.upstreams.all.map(({ name }) => name));
    if (before.upstreams.all.some(({ name }) => !names.has(name))) {
      this.traffic.forgetRecorders();
      void forgetUpstreams(registry, names);
    }
    this.announce();
    const users = Promise.all([settledWithin(this.inFlight.settled(), RETIREMENT, clock), sleep(REFRESH_GRACE, clock)]);
    void before.upstreams.closeExcept(after.upstreams, users);
  }

  /** `/status` besides version and uptime. */
  status(): ServingStatus {
    const { entries, bytes } = this.memory;
    return {
      cache: { memory: { entries, bytes, maxBytes: this.config.cache.memory.maxBytes } },
      redis: this.options.coordination.redisStatus(),
      upstreams: this.runtime.upstreams.status(),
    };
  }

  /** See `purge`. */
  purge(body: unknown): Promise<PurgeResult> {
    const { coordination, clock } = this.options;
    const { configured } = coordination.redisStatus();
    const learnBy = configured ? clock.now() + LEARN_TIMEOUT : undefined;
    return purge({ coordinator: coordination.coordinator, upstreams: this.runtime.upstreams, learnBy }, body);
  }

  /** From now on every answer closes its connection, so that clients go elsewhere. */
  announceDrain(): void {
    this.draining = true;
  }

  /** Stops accepting, finishes what runs within `shutdown.timeout`, refuses the rest, and closes everything. */
  async drain(): Promise<void> {
    const { clock, coordination, tracing } = this.options;
    this.draining = true;
    await drain({
      listener: this.listener,
      inFlight: this.inFlight,
      clock,
      timeout: this.config.shutdown.timeout,
      refuse: (running) => refuseLate(running, this.surroundings),
    });
    this.overload.stop();
    await settledWithin(this.surroundings.backgroundReader.stop(), CLOSE_TIMEOUT, clock);
    await this.cache.drain();
    await settledWithin(this.runtime.upstreams.close(), CLOSE_TIMEOUT, clock);
    this.bodies.close();
    await settledWithin(coordination.coordinator.close(), CLOSE_TIMEOUT, clock);
    if (tracing !== undefined) await settledWithin(tracing.close(), CLOSE_TIMEOUT, clock);
  }

  private createListener(config: Config): FastifyInstance {
    const listener = createPublicListener(this.surroundings, config, this.cache);
    this.inFlight.follow(listener);
    shedCalls(listener, this.overload);
    return listener;
  }

  private assemble(config: Config): Runtime {
    const { coordination, clock, random, tracing } = this.options;
    // Undefined while the constructor runs.
    const previous = this.runtime as Runtime | undefined;
    const { coordinator } = coordination;
    const environment = {
      limits: config.limits,
      coordinator,
      clock,
      bodies: this.bodies,
      random,
      observer: this.upstreamObserver,
      forget: (admin: string) => void coordinator.purge(admin, SCOPES.all),
    };
    return createRuntime(config, {
      upstreams: new Upstreams(config.upstreams, environment, previous?.upstreams),
      cache: this.cache,
      coordinator,
      observer: this.metadataObserver,
      pages: this.pages,
      trace: tracing === undefined ? undefined : () => tracing.current(),
      overload: this.overload,
      previous,
    });
  }

  private createUpstreamObserver(): UpstreamObserver {
    const { metrics, log, onAdminProved } = this.options;
    const observer = createUpstreamObserver(metrics, log, (name, url) => {
      return this.upstreams.byName(name)?.config.urls.indexOf(url) ?? -1;
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

  private announce(): void {
    announce(
      this.options.registry,
      this.upstreams.all.map(({ name }) => name),
    );
  }

  private refreshGauges(): void {
    const { metrics } = this.options;
    metrics.eventLoopDelay.set(this.overload.delay / 1000);
    metrics.shedding.set(this.overload.isShedding ? 1 : 0);
    refreshGauges(metrics, {
      upstreams: this.upstreams.all,
      memory: this.memory,
      maxBytes: this.config.cache.memory.maxBytes,
      traffic: this.traffic,
      redis: this.options.coordination.redisStatus(),
    });
  }
}
