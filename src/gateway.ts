import { createAggregation } from "./aggregate/aggregation.ts";
import { BodyReader } from "./bodies/body-reader.ts";
import { ListedPages } from "./bodies/page.ts";
import { HttpCache } from "./cache/http-cache.ts";
import { MemoryStore } from "./cache/stores/memory-store.ts";
import { TieredLimits } from "./clients/client-limits.ts";
import { Clients } from "./clients/clients.ts";
import { type Clock, sleep } from "./clock.ts";
import { type CertificateStatus, certificatesOf } from "./config/certificates.ts";
import type { Config } from "./config/schema.ts";
import { Discovery } from "./discovery/discovery.ts";
import { readTls, type TlsFiles } from "./config/tls-files.ts";
import {
  coordinateAlone,
  coordinateByRedis,
  type Coordination,
  isRedisConnected,
  sharePinsByRedis,
} from "./coordination/coordination.ts";
import { ClientConnections } from "./http/connections.ts";
import type { Services } from "./http/context.ts";
import { ListenerCertificate } from "./http/listener-certificate.ts";
import { createPublicListener } from "./http/listener.ts";
import { openListener } from "./http/listening.ts";
import { isAggregate, Snapshots } from "./http/snapshot.ts";
import { InFlight, type LoopLoad, Overload } from "./http/workload.ts";
import { History } from "./observe/history.ts";
import { sampleOf } from "./observe/history-sample.ts";
import type { Logger } from "./observe/log.ts";
import { createDiscoveryObserver } from "./observe/discovery-observer.ts";
import type { Metrics } from "./observe/metrics.ts";
import type { LiveRegistry } from "./observe/metrics/bound.ts";
import {
  createInstruments,
  createRedisObserver,
  type ServerObserverOptions,
  ServerObservers,
} from "./observe/observers.ts";
import { traceRedis } from "./observe/tracing/traced-observers.ts";
import { loadTracing } from "./observe/tracing/tracing.ts";
import { accessOf } from "./operations/access.ts";
import type { ReloadReport } from "./operations/config-report.ts";
import { createOperationsListener } from "./operations/listener.ts";
import { Readiness } from "./operations/readiness.ts";
import { BackgroundReader } from "./registry/background-reader.ts";
import { SCOPES } from "./registry/metadata-resource.ts";
import { Server } from "./server.ts";
import { ComparisonBudget } from "./upstream/comparison/node-comparison.ts";
import type { Upstreams } from "./upstream/upstreams.ts";
import { Primary } from "./workers/primary.ts";
import { reservePort, spawnWorker } from "./workers/worker-process.ts";
import type { WorkerParts } from "./workers/worker.ts";
import { BUILT_CONSOLE } from "./version.ts";

export interface GatewayOptions {
  readonly config: Config;
  readonly version: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
  /** How the event loop does; where it is not measured, nothing is ever shed. */
  readonly loop?: () => LoopLoad;
  /** Memory of the process, in bytes; where it is not given, the history does not show it. */
  readonly residentBytes?: () => number;
  /** Told as soon as an upstream's admin is known. */
  readonly onAdminProved?: (upstream: string, admin: string) => void;
  /** What became of the configuration file last, where it is read again. */
  readonly lastReload?: () => ReloadReport | undefined;
  /** The folder with the console's files, where it is another one than that of the build. */
  readonly console?: string;
}

/** A gateway that can be started and stopped once. */
export interface Gateway {
  /** Listens. Rejects when a port cannot be had. */
  start(): Promise<{ readonly publicPort: number; readonly operationsPort: number }>;
  /**
   * Puts `config` to use for requests to come, but for keys that need a restart: they have to be as they were. Rejects
   * when a file that it names cannot be read; everything is as it was then.
   */
  reload(config: Config): Promise<void>;
  /** Drains and closes everything within `shutdown.timeout`; with `grace` it goes on accepting for `shutdown.grace`. */
  stop(options: { readonly grace: boolean }): Promise<void>;
  /** The configuration in use. */
  readonly config: Config;
  readonly metrics: Metrics;
  /** What `/metrics` shows. */
  readonly registry: LiveRegistry;
  upstreams(): Upstreams;
}

/** A gateway of one process. */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const { config, version, log, clock } = options;
  const { metrics, registry } = createInstruments(version, clock);
  metrics.workers.set(1);
  const tracing = await loadTracing(config.tracing, { version, clock, log });
  const coordination = await createCoordination(config, { clock, metrics, log, tracing });
  const server = createServer({ ...options, metrics, registry, tracing, coordination, isWorker: false });
  const discovery = new Discovery(config, {
    clock,
    random: options.random,
    observer: createDiscoveryObserver(metrics, log, clock),
    shared: coordination.pins,
    written: () => server.config.upstreams,
    use: (found) => server.use(found),
  });
  const readiness = new Readiness({
    clock,
    isDraining: () => server.isDraining,
    upstreams: () => server.upstreams.status(),
    isRedisConnected: () => isRedisConnected(coordination.redisStatus()),
  });
  const history = new History(clock);
  const operations = createOperationsListener({
    clock,
    log,
    metrics,
    version,
    registry,
    readiness,
    explain: server.explain,
    clients: () => server.clients(),
    cache: (preview) => server.cache(preview),
    history: (since) => history.report(since),
    requests: (filter) => server.requests(filter),
    purge: (body) => server.purge(body),
    act: (request) => server.act(request),
    discovery,
    inForce: () => server.status().inForce,
    status: () => server.status(),
    config: () => server.config,
    lastReload: options.lastReload,
    access: accessOf(config),
    console: options.console ?? BUILT_CONSOLE,
  });
  return {
    metrics,
    registry,
    get config() {
      return server.config;
    },
    upstreams: () => server.upstreams,
    async start() {
      const operationsPort = await openListener(operations, config.operations, "operations");
      await discovery.open();
      const publicPort = await server.start();
      history.keep(() => Promise.resolve(new Map([[0, server.sample()]])));
      discovery.start();
      log.info({ publicPort, operationsPort, upstreams: server.upstreams.all.length, version }, "listening");
      return { publicPort, operationsPort };
    },
    async reload(next) {
      await server.reload(next);
      void discovery.follow(next);
    },
    async stop({ grace }) {
      server.announceDrain();
      await discovery.close();
      if (grace) await sleep(server.config.shutdown.grace, clock);
      await server.drain();
      history.stop();
      await operations.close();
    },
  };
}

/** A gateway of several processes: this one, which speaks for the others, which answer. */
export function createPrimary(
  options: Omit<GatewayOptions, "random" | "loop"> & { readonly workers: number },
): Primary {
  const { config, clock, log } = options;
  const instruments = createInstruments(options.version, clock);
  return new Primary({
    ...options,
    ...instruments,
    createDiscovery(parts) {
      const observer = createDiscoveryObserver(instruments.metrics, log, clock);
      const shared =
        config.redis && sharePinsByRedis(config.redis, clock, createRedisObserver(instruments.metrics, log));
      return new Discovery(config, { ...parts, clock, random: Math.random, observer, shared });
    },
    reservePort,
    spawn: spawnWorker,
    createOperations: (parts) =>
      createOperationsListener({
        ...parts,
        access: accessOf(options.config),
        console: options.console ?? BUILT_CONSOLE,
        lastReload: options.lastReload,
      }),
  });
}

/** What answers clients in a worker. */
export async function createWorkerServer(
  { shareByPrimary, ...parts }: WorkerParts,
  options: Pick<GatewayOptions, "version" | "clock" | "random" | "loop" | "residentBytes">,
): Promise<Server> {
  const { config, log, metrics } = parts;
  const { version, clock } = options;
  const tracing = await loadTracing(config.tracing, { version, clock, log });
  const coordination = await (config.redis === undefined
    ? shareByPrimary()
    : createCoordination(config, { clock, metrics, log, tracing }));
  return createServer({ ...options, ...parts, coordination, tracing, isWorker: true });
}

interface ServerOptions extends GatewayOptions, ServerObserverOptions {
  readonly coordination: Coordination;
  readonly isWorker: boolean;
}

/** Builds what answers clients, each part after those that it depends on. */
function createServer(options: ServerOptions): Server {
  const { config, clock, random, coordination } = options;
  const observers = new ServerObservers(options);
  const overload = new Overload({ clock, load: options.loop, ...observers.overload });
  const memory = new MemoryStore({ ...config.cache.memory, observer: observers.cache });
  const { coordinator, store: shared } = coordination;
  const cache = new HttpCache({ memory, shared, coordinator, clock, random, observer: observers.cache });
  const { snapshots, bodies, comparisons } = createSnapshots(options, { cache, observers, overload });
  const snapshot = snapshots.read;
  const inFlight = new InFlight();
  const services = createServices(options, {
    cache,
    bodies,
    observers: observers.requests,
    inFlight,
    snapshot,
  });
  const connections = new ClientConnections({
    clock,
    max: config.listen.maxConnections,
    onDropped: () => observers.traffic.connectionDropped(),
    onClosed: (reason) => observers.traffic.connectionCutOff(reason),
  });
  const { tls } = config.listen;
  const certificate = tls === undefined ? undefined : new ListenerCertificate({ tls, clock, ...observers.certificate });
  const listener = createPublicListener({ services, config, connections, inFlight, overload, certificate });
  observers.show(snapshot().upstreams);
  const ofRedis = config.redis?.tls === undefined ? [] : redisCertificates(config.redis.tls);
  const certificates = () => [...(certificate?.certificates() ?? []), ...ofRedis];
  const { catalogue } = services.aggregation;
  observers.readGauges({ memory, catalogue, overload, coordination, snapshot, certificates });
  coordinator.actions.onChange(() => snapshot().upstreams.heed());
  coordinator.onAnnounced((news) => snapshot().upstreams.hear(news));
  return new Server({
    services,
    snapshots,
    memory,
    coordination,
    comparisons,
    overload,
    inFlight,
    listener,
    connections,
    certificate,
    certificates,
    isWorker: options.isWorker,
    sample: () =>
      sampleOf(options.metrics, {
        residentBytes: options.residentBytes?.(),
        cacheBytes: memory.bytes,
        loopDelay: overload.delay,
      }),
    onReload: (before, after) => observers.show(after, before),
  });
}

/** As its client has read them, at the start and never again. */
function redisCertificates(files: TlsFiles): readonly CertificateStatus[] {
  return certificatesOf(readTls(files), "redis", "redis_authority");
}

/** The snapshots, and what reads bodies within the limits of the current one. */
function createSnapshots(
  { config, clock, random, coordination, tracing }: ServerOptions,
  { cache, observers, overload }: { cache: HttpCache; observers: ServerObservers; overload: Overload },
): { readonly snapshots: Snapshots; readonly bodies: BodyReader; readonly comparisons: ComparisonBudget } {
  const { coordinator } = coordination;
  const limits = () => snapshots.read().config.limits;
  const largest = () => Math.max(limits().requestBody, limits().responseBody);
  const bodies = new BodyReader({ clock, largest });
  // A thread of its own, started when it is first needed: no client's answer waits behind a comparison.
  const comparisons = new ComparisonBudget(new BodyReader({ clock, largest }));
  // Outlives reloads, and with it what clients have used.
  const clientLimits = new TieredLimits({ clock, shared: coordinator.clientLimits });
  const snapshots: Snapshots = new Snapshots(config, {
    upstream: {
      coordinator,
      clock,
      bodies,
      random,
      comparisons,
      observer: observers.upstreams(() => snapshots.read().upstreams),
      forget: (admin) => void coordinator.purge(admin, SCOPES.all),
    },
    registry: {
      cache,
      coordinator,
      observer: observers.metadata,
      pages: new ListedPages(bodies),
      trace: tracing === undefined ? undefined : () => tracing.current(),
      admit: overload.refuseMetadata,
    },
    clients: (next, previous) =>
      Clients.open(next, { clock, limits: clientLimits, observer: observers.clients }, previous),
  });
  return { snapshots, bodies, comparisons };
}

/** What requests find in the process, with what works for them in the background. */
function createServices(
  { clock, random, version, coordination: { coordinator } }: ServerOptions,
  parts: Pick<Services, "cache" | "bodies" | "observers" | "inFlight" | "snapshot">,
): Services {
  const aggregation = createAggregation({ clock, coordinator, upstreams: () => parts.snapshot().upstreams });
  const backgroundReader = new BackgroundReader({
    clock,
    random,
    registries: () => [...parts.snapshot().registries.values()],
    isListing: () => isAggregate(parts.snapshot()),
    listed: (listing) => aggregation.catalogue.take(listing),
  });
  return { clock, random, version, aggregation, backgroundReader, ...parts };
}

/** What the process shares with others: by Redis where one is configured, else nothing. */
async function createCoordination(
  { redis }: Config,
  { clock, metrics, log, tracing }: Pick<ServerObserverOptions, "clock" | "metrics" | "log" | "tracing">,
): Promise<Coordination> {
  if (redis === undefined) return coordinateAlone(clock);
  const observer = createRedisObserver(metrics, log);
  return coordinateByRedis(redis, clock, tracing === undefined ? observer : traceRedis(observer, tracing));
}
