import type { FastifyInstance } from "fastify";
import { createAggregation } from "../aggregate/aggregation.ts";
import type { ChangesObserver } from "../aggregate/changes.ts";
import { BodyReader } from "../bodies/body-reader.ts";
import { ListedPages } from "../bodies/page.ts";
import { HttpCache } from "../cache/http-cache.ts";
import { MemoryStore } from "../cache/stores/memory-store.ts";
import { TieredLimits } from "../clients/client-limits.ts";
import { Clients } from "../clients/clients.ts";
import { certificatesOf, type CertificateStatus, readTls, type TlsFiles } from "../config/certificates.ts";
import type { FileWatcher } from "../config/watched-files.ts";
import { ClientConnections } from "../connections/connections.ts";
import { ListenerCertificate } from "../connections/tls.ts";
import { type HistorySample, sampleOf } from "../observe/history-sample.ts";
import { type ServerObserverOptions, ServerObservers } from "../observe/observers.ts";
import { BackgroundReader } from "../registry/background-reader.ts";
import { Contexts } from "../registry/contexts.ts";
import { purgeScopes } from "../registry/metadata-key.ts";
import { hasCatalogue } from "../requests/catalogue.ts";
import { ChangeStreams } from "../requests/changes.ts";
import type { Services } from "../requests/context.ts";
import { InFlight } from "../requests/in-flight.ts";
import { registriesOf } from "../requests/aggregate.ts";
import { createPublicListener } from "../requests/listener.ts";
import { type Coordination } from "../sharing/coordination.ts";
import { heldAnswers } from "../upstream/parts.ts";
import type { GatewayOptions } from "./gateway.ts";
import { Overload } from "./overload.ts";
import { ReplicaStateSource } from "./replica-state.ts";
import { type SnapshotParts, Snapshots } from "./snapshots.ts";

/** What the part of a gateway that answers clients is made with. */
export interface ServerOptions extends GatewayOptions, ServerObserverOptions {
  readonly coordination: Coordination;
  readonly files: FileWatcher;
}

/** What answers clients. */
export interface PublicParts {
  readonly snapshots: Snapshots;
  readonly services: Services;
  readonly memory: MemoryStore;
  readonly overload: Overload;
  readonly inFlight: InFlight;
  readonly listener: FastifyInstance;
  readonly connections: ClientConnections;
  readonly certificate: ListenerCertificate | undefined;
  /** When certificates end that are no upstream's. */
  readonly certificates: () => readonly CertificateStatus[];
  /** For the history of the process. */
  readonly sample: () => Promise<HistorySample>;
}

/** Builds what answers clients, each part after those that it depends on. */
export function createPublicParts(options: ServerOptions): PublicParts {
  const { config, clock, random, coordination } = options;
  const observers = new ServerObservers(options);
  const overload = new Overload({ clock, load: options.loop, ...observers.overload });
  const memory = new MemoryStore({ ...config.cache.memory, observer: observers.cache });
  const { coordinator, store: shared } = coordination;
  const cache = new HttpCache({ memory, shared, coordinator, clock, random, observer: observers.cache });
  const inFlight = new InFlight();
  const { snapshots, bodies } = createSnapshots(options, {
    cache,
    observers,
    overload,
    memory,
    inFlight,
    onReload(before, after) {
      observers.show(after, before);
      services.aggregation.changes.look();
      services.changeStreams.follow();
    },
  });
  const contexts = new Contexts({ clock, epochs: coordinator.epochs, observer: observers.contexts });
  const services: Services = createServices(options, {
    cache,
    contexts,
    bodies,
    observers: observers.requests,
    changes: observers.changes,
    inFlight,
    snapshots,
  });
  const listening = createListener(options, { services, observers, overload });
  observers.show(snapshots.latest.upstreams);
  const ofRedis = config.redis?.tls === undefined ? [] : redisCertificates(config.redis.tls);
  const certificates = () => [...(listening.certificate?.certificates() ?? []), ...ofRedis];
  const { catalogue } = services.aggregation;
  const subscribers = () => services.changeStreams.size;
  observers.readGauges({
    memory,
    contexts,
    catalogue,
    subscribers,
    overload,
    coordination,
    snapshot: () => snapshots.latest,
    certificates,
  });
  introduceReplica(options, { observers, overload, snapshots });
  coordinator.actions.onChange(() => snapshots.latest.upstreams.followActions());
  coordinator.announcements.onAnnounced((event) => snapshots.latest.upstreams.receive(event));
  const sample = () =>
    sampleOf(options.metrics, {
      residentBytes: options.residentBytes?.(),
      cacheBytes: memory.bytes,
      loopDelay: overload.delay,
    });
  return { snapshots, services, memory, overload, inFlight, ...listening, certificates, sample };
}

/** What clients connect to, and what it shows of itself. */
function createListener(
  { config, clock, files }: ServerOptions,
  { services, observers, overload }: Pick<PublicParts, "services" | "overload"> & Pick<ReplicaParts, "observers">,
): Pick<PublicParts, "listener" | "connections" | "certificate"> {
  const connections = new ClientConnections({
    clock,
    max: config.listen.maxConnections,
    onDropped: () => observers.traffic.connectionDropped(),
    onClosed: (reason) => observers.traffic.connectionCutOff(reason),
  });
  const { tls } = config.listen;
  const certificate = tls === undefined ? undefined : new ListenerCertificate({ tls, files, ...observers.certificate });
  const { refuseCall } = overload;
  const listener = createPublicListener({ services, config, connections, certificate, refuseCall });
  return { listener, connections, certificate };
}

/** Has this replica report to the others how it does. */
function introduceReplica(
  { clock, residentBytes, coordination: { coordinator } }: ServerOptions,
  { observers, overload, snapshots }: ReplicaParts,
): void {
  const state = new ReplicaStateSource({
    clock,
    actions: coordinator.actions,
    config: () => snapshots.latest.config,
    clientKeys: () => snapshots.latest.clients?.keysDigest,
    upstreams: () => snapshots.latest.upstreams.status(),
    answered: () => observers.traffic.answered,
    load: () => overload.load,
    residentBytes: () => residentBytes?.() ?? 0,
  });
  coordinator.replicas.introduce(() => state.read());
}

interface ReplicaParts {
  readonly observers: ServerObservers;
  readonly overload: Overload;
  readonly snapshots: Snapshots;
}

/** As its client has read them, at the start and never again. */
function redisCertificates(files: TlsFiles): readonly CertificateStatus[] {
  return certificatesOf(readTls(files), "redis", "redis_authority");
}

/** The snapshots, and what reads bodies within the limits of the current one. */
function createSnapshots(
  { config, clock, files, random, log, coordination, tracing }: ServerOptions,
  { cache, observers, overload, ...parts }: SnapshotUses,
): { readonly snapshots: Snapshots; readonly bodies: BodyReader } {
  const { coordinator } = coordination;
  const limits = () => snapshots.latest.config.limits;
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
      answers: heldAnswers(),
      random,
      observer: observers.upstreams(() => snapshots.latest.upstreams),
      forget: (admin) => void coordinator.epochs.purge(admin, purgeScopes()),
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
    clock,
    log,
    ...parts,
  });
  return { snapshots, bodies };
}

/** What is there before the snapshots, and what follows a reload. */
interface SnapshotUses extends Pick<SnapshotParts, "memory" | "inFlight" | "onReload"> {
  readonly cache: HttpCache;
  readonly observers: ServerObservers;
  readonly overload: Overload;
}

/** What requests find in the process, with what works for them in the background. */
function createServices(
  { clock, random, version, coordination: { coordinator, changes: shared } }: ServerOptions,
  { changes: observer, ...parts }: ServiceParts,
): Services {
  const upstreams = () => parts.snapshots.latest.upstreams;
  const { epochs, facts } = coordinator;
  const aggregation = createAggregation({ clock, epochs, facts, shared, upstreams, observer });
  const backgroundReader = new BackgroundReader({
    clock,
    random,
    registries: () => registriesOf(parts.snapshots.latest),
    isListing: () => hasCatalogue(parts.snapshots.latest),
    listed: async (listing) => aggregation.changes.take(await aggregation.catalogue.take(listing)),
  });
  const { changes } = aggregation;
  const changeStreams = new ChangeStreams({ clock, random, changes, backgroundReader, snapshots: parts.snapshots });
  return { clock, random, version, aggregation, backgroundReader, changeStreams, ...parts };
}

/** Of what services are made, and work with. */
interface ServiceParts extends Pick<
  Services,
  "cache" | "contexts" | "bodies" | "observers" | "inFlight" | "snapshots"
> {
  readonly changes: ChangesObserver;
}
