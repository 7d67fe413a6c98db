import { createAggregation } from "../aggregate/aggregation.ts";
import { BodyReader } from "../bodies/body-reader.ts";
import { ListedPages } from "../bodies/page.ts";
import { HttpCache } from "../cache/http-cache.ts";
import { MemoryStore } from "../cache/stores/memory-store.ts";
import { TieredLimits } from "../clients/client-limits.ts";
import { Clients } from "../clients/clients.ts";
import { type Clock, type Duration, settledWithin, sleep } from "../clock.ts";
import { type CertificateStatus, certificatesOf } from "../config/certificates.ts";
import type { Config } from "../config/schema.ts";
import { Discovery } from "../discovery/discovery.ts";
import { readTls, type TlsFiles } from "../config/tls-files.ts";
import { FileWatcher } from "../config/watched-files.ts";
import { coordinateAlone, coordinateByRedis, type Coordination, isRedisConnected } from "../sharing/coordination.ts";
import { ClientConnections } from "../connections/connections.ts";
import type { Services } from "../requests/context.ts";
import { ListenerCertificate } from "../connections/listener-certificate.ts";
import { createPublicListener } from "../requests/listener.ts";
import { openListener } from "../connections/listening.ts";
import { InFlight } from "../requests/in-flight.ts";
import { isAggregate } from "../requests/resolve-upstream.ts";
import { drain } from "./drain.ts";
import { type LoopLoad, Overload } from "./overload.ts";
import { Snapshots } from "./snapshots.ts";
import { History } from "../observe/history.ts";
import { sampleOf } from "../observe/history-sample.ts";
import type { Logger } from "../observe/log.ts";
import { createDiscoveryObserver } from "../observe/discovery-observer.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { LiveRegistry } from "../observe/metrics/live-registry.ts";
import {
  createInstruments,
  createRedisObserver,
  type ServerObserverOptions,
  ServerObservers,
} from "../observe/observers.ts";
import { traceRedis } from "../observe/tracing/traced-observers.ts";
import { thisReplica } from "../version.ts";
import { loadPush } from "../observe/metrics/push.ts";
import { loadTracing } from "../observe/tracing/tracing.ts";
import { accessOf } from "../operations/access.ts";
import type { ReloadReport } from "../operations/config-report.ts";
import { HealthReport } from "../operations/conditions/health-report.ts";
import { createOperationsListener } from "../operations/listener.ts";
import { Readiness } from "../operations/readiness.ts";
import { ReplicaWatch } from "../operations/replicas.ts";
import { BackgroundReader } from "../registry/background-reader.ts";
import { purgeScopes } from "../registry/metadata-key.ts";
import { ReplicaStateSource } from "./replica-state.ts";
import { Server } from "./server.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import { BUILT_CONSOLE } from "../version.ts";

/** How long a start waits for Redis, which may be away. */
const REDIS_TIMEOUT: Duration = 1_000;

/** What is left when the process ends may take this long to close. */
const CLOSE_TIMEOUT: Duration = 2_000;

export interface GatewayOptions {
  readonly config: Config;
  readonly version: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
  /** How the event loop does; where it is not measured, nothing is ever shed. */
  readonly loop?: () => LoopLoad;
  /** Memory of the process, in bytes; where it is not given, the history does not show it. */
  readonly residentBytes?: () => number | undefined;
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
  /** Looks at every file that is read again. */
  readonly files: FileWatcher;
  readonly metrics: Metrics;
  /** What `/metrics` shows. */
  readonly registry: LiveRegistry;
  upstreams(): Upstreams;
}

/** The whole life of a gateway: what it is made of, and how it starts, reloads and stops. */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const { config, version, log, clock } = options;
  const files = new FileWatcher(clock, (file) =>
    log.warn({ file }, "file has no name any more: changes of it are not seen"),
  );
  const { metrics, registry } = createInstruments(version, { exemplars: config.tracing.endpoint !== undefined });
  const tracing = await loadTracing(config.tracing, { version, clock, log });
  const push = await loadPush(config.metrics, { registry, version, instance: thisReplica.name, clock, log });
  const coordination = await createCoordination(
    config,
    { clock, files, metrics, log, tracing },
    () => server.config.cache.memory.maxObject,
  );
  const { server, services, overload, inFlight, listener, connections, certificate, sample } = createServer({
    ...options,
    files,
    metrics,
    registry,
    tracing,
    coordination,
  });
  const discovery = new Discovery(config, {
    clock,
    files,
    random: options.random,
    observer: createDiscoveryObserver(metrics, log, clock),
    shared: coordination.pins,
    written: () => server.config.upstreams,
    use: (found) => server.use(found),
  });
  const readiness = new Readiness({
    clock,
    isDraining: () => inFlight.isDraining,
    upstreams: () => server.upstreams.status(),
    isRedisConnected: () => isRedisConnected(coordination.redisStatus()),
  });
  const history = new History(clock);
  const access = accessOf(config, { files, log, metrics });
  const replicas = new ReplicaWatch(coordination.coordinator, clock);
  const health = new HealthReport({
    clock,
    metrics,
    replicas,
    status: () => server.status(),
    discovery: () => discovery.report(),
    lastReload: () => options.lastReload?.(),
    operatorFaults: () => access.operators.faults,
  });
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
    replicas,
    whoTook: (since, reach) => coordination.coordinator.whoTook(since, reach),
    inForce: () => server.status().inForce,
    isWritten: (did) => {
      const redis = coordination.redisStatus();
      if (!redis.configured || redis.state !== "up") return false;
      if (did === "discovery") return discovery.isShared();
      return (did === "purge" ? redis.pendingPurges : redis.pendingActions) === 0;
    },
    health: () => health.look(),
    status: () => server.status(),
    config: () => server.config,
    lastReload: options.lastReload,
    access,
    console: options.console ?? BUILT_CONSOLE,
  });
  return {
    files,
    metrics,
    registry,
    get config() {
      return server.config;
    },
    upstreams: () => server.upstreams,
    async start() {
      const operationsPort = await openListener(operations, config.operations, "operations");
      await discovery.open();
      // The very first request is to find what other replicas have cached, and no node is asked that operators cordoned
      // or spared.
      await coordination.whenReady(REDIS_TIMEOUT);
      server.start();
      const publicPort = await openListener(listener, config.listen, "public");
      services.backgroundReader.start();
      overload.start();
      history.keep(sample);
      push?.start();
      health.start();
      discovery.start();
      log.info({ publicPort, operationsPort, upstreams: server.upstreams.all.length, version }, "listening");
      return { publicPort, operationsPort };
    },
    async reload(next) {
      await server.reload(next);
      void discovery.follow(next);
    },
    async stop({ grace }) {
      // Readiness falls, and every answer closes its connection, so that clients go elsewhere.
      inFlight.isDraining = true;
      await discovery.close();
      const { shutdown } = server.config;
      if (grace) await sleep(shutdown.grace, clock);
      certificate?.close();
      await drain({ listener, connections, inFlight, clock, timeout: shutdown.timeout });
      overload.stop();
      const close = (closing: Promise<unknown>) => settledWithin(closing, CLOSE_TIMEOUT, clock);
      await close(services.backgroundReader.stop());
      await services.cache.drain();
      await close(server.stop());
      services.bodies.close();
      await close(coordination.coordinator.close());
      if (tracing !== undefined) await close(tracing.close());
      if (push !== undefined) await close(push.close());
      history.stop();
      health.stop();
      access.operators.close();
      await operations.close();
    },
  };
}

interface ServerOptions extends GatewayOptions, ServerObserverOptions {
  readonly coordination: Coordination;
  readonly files: FileWatcher;
}

/** Builds what answers clients, each part after those that it depends on. */
function createServer(options: ServerOptions) {
  const { config, clock, files, random, coordination } = options;
  const observers = new ServerObservers(options);
  const overload = new Overload({ clock, load: options.loop, ...observers.overload });
  const memory = new MemoryStore({ ...config.cache.memory, observer: observers.cache });
  const { coordinator, store: shared } = coordination;
  const cache = new HttpCache({ memory, shared, coordinator, clock, random, observer: observers.cache });
  const { snapshots, bodies } = createSnapshots(options, { cache, observers, overload });
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
  const certificate = tls === undefined ? undefined : new ListenerCertificate({ tls, files, ...observers.certificate });
  const listener = createPublicListener({
    services,
    config,
    connections,
    certificate,
    refuseCall: () => overload.refuseWork("call"),
  });
  observers.show(snapshot().upstreams);
  const ofRedis = config.redis?.tls === undefined ? [] : redisCertificates(config.redis.tls);
  const certificates = () => [...(certificate?.certificates() ?? []), ...ofRedis];
  const { catalogue } = services.aggregation;
  observers.readGauges({ memory, catalogue, overload, coordination, snapshot, certificates });
  const state = new ReplicaStateSource({
    clock,
    metrics: options.metrics,
    actions: coordinator.actions,
    config: () => snapshot().config,
    clientKeys: () => snapshot().clients?.keysDigest,
    upstreams: () => snapshot().upstreams.status(),
    requestsInFlight: () => inFlight.size,
    connections: () => observers.traffic.connections,
    load: () => overload.load,
    residentBytes: () => options.residentBytes?.() ?? 0,
  });
  coordinator.introduce(() => state.read());
  coordinator.actions.onChange(() => snapshot().upstreams.heed());
  coordinator.onAnnounced((news) => snapshot().upstreams.hear(news));
  const server = new Server({
    services,
    snapshots,
    memory,
    coordination,
    inFlight,
    certificates,
    onReload: (before, after) => observers.show(after, before),
  });
  const sample = () =>
    sampleOf(options.metrics, {
      residentBytes: options.residentBytes?.(),
      cacheBytes: memory.bytes,
      loopDelay: overload.delay,
    });
  return { server, services, overload, inFlight, listener, connections, certificate, sample };
}

/** As its client has read them, at the start and never again. */
function redisCertificates(files: TlsFiles): readonly CertificateStatus[] {
  return certificatesOf(readTls(files), "redis", "redis_authority");
}

/** The snapshots, and what reads bodies within the limits of the current one. */
function createSnapshots(
  { config, clock, files, random, coordination, tracing }: ServerOptions,
  { cache, observers, overload }: { cache: HttpCache; observers: ServerObservers; overload: Overload },
): { readonly snapshots: Snapshots; readonly bodies: BodyReader } {
  const { coordinator } = coordination;
  const limits = () => snapshots.read().config.limits;
  const largest = () => Math.max(limits().requestBody, limits().responseBody);
  const bodies = new BodyReader({ clock, largest });
  // Outlives reloads, and with it what clients have used.
  const clientLimits = new TieredLimits({ clock, limits: coordinator.limits, onSpared: observers.spared });
  const snapshots: Snapshots = new Snapshots(config, {
    upstream: {
      coordinator,
      clock,
      files,
      bodies,
      random,
      observer: observers.upstreams(() => snapshots.read().upstreams),
      forget: (admin) => void coordinator.purge(admin, purgeScopes()),
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
      Clients.open(next, { clock, files, limits: clientLimits, observer: observers.clients }, previous),
  });
  return { snapshots, bodies };
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
  { clock, files, metrics, log, tracing }: Pick<ServerOptions, "clock" | "files" | "metrics" | "log" | "tracing">,
  largestBody: () => number,
): Promise<Coordination> {
  if (redis === undefined) return coordinateAlone(clock);
  const observer = createRedisObserver(metrics, log);
  const traced = tracing === undefined ? observer : traceRedis(observer, tracing);
  return coordinateByRedis(redis, { clock, files, observer: traced, largestBody });
}
