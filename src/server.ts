import { isDeepStrictEqual } from "node:util";
import type { FastifyInstance } from "fastify";
import type { MemoryStore } from "./cache/stores/memory-store.ts";
import { type Duration, settledWithin, sleep } from "./clock.ts";
import type { CertificateStatus } from "./config/certificates.ts";
import type { Config } from "./config/schema.ts";
import type { Coordination } from "./coordination/coordination.ts";
import type { ClientConnections } from "./http/connections.ts";
import type { Services } from "./http/context.ts";
import type { ListenerCertificate } from "./http/listener-certificate.ts";
import { openListener } from "./http/listening.ts";
import type { Snapshots } from "./http/snapshot.ts";
import { drain, type InFlight, type Overload } from "./http/workload.ts";
import { act, type ActRequest, type ActResult } from "./operations/actions.ts";
import type { HistorySample } from "./observe/history-sample.ts";
import type { RequestFilter, RequestsReport } from "./observe/request-log.ts";
import type { CacheAnswer } from "./operations/answers.ts";
import { type PurgePreview, reportCache } from "./operations/cache-report.ts";
import { type ClientsReport, reportClients } from "./operations/clients-report.ts";
import { createExplain, type Explain } from "./operations/explain.ts";
import { purge, type PurgeResult } from "./operations/purge.ts";
import { type ProcessStatus, statusOf } from "./operations/status.ts";
import type { ComparisonBudget } from "./upstream/comparison/node-comparison.ts";
import { type FoundRegistries, NOTHING_FOUND } from "./upstream/found.ts";
import type { Upstreams } from "./upstream/upstreams.ts";

/** What a server is made of; the composition root builds it. */
export interface ServerParts {
  readonly services: Services;
  readonly snapshots: Snapshots;
  readonly memory: MemoryStore;
  readonly coordination: Coordination;
  /** Of comparing nodes. */
  readonly comparisons: ComparisonBudget;
  readonly overload: Overload;
  readonly inFlight: InFlight;
  readonly listener: FastifyInstance;
  readonly connections: ClientConnections;
  /** Of `listen.tls`. */
  readonly certificate: ListenerCertificate | undefined;
  /** Those of the process itself, those of upstreams apart. */
  readonly certificates: () => readonly CertificateStatus[];
  /** Other workers of this gateway listen on the same port. */
  readonly isWorker: boolean;
  /** What the metrics say now, as the history takes it. */
  readonly sample: () => HistorySample;
  /** Told of the snapshot that a reload brings: upstreams may have come and gone. */
  readonly onReload: (before: Upstreams, after: Upstreams) => void;
}

/** Upstreams that a reload replaced are kept for requests that began before it, but no longer. */
const RETIREMENT: Duration = 60_000;

/** How long a start waits for Redis, which may be away. */
const REDIS_TIMEOUT: Duration = 1_000;

/** A refresh in the background that began just before a reload, and is no client's request, gets this long to call. */
const REFRESH_GRACE: Duration = 1_000;

/** What is left when the process ends may take this long to close. */
const CLOSE_TIMEOUT: Duration = 2_000;

/** The part of a process that answers clients: how it starts, reloads, drains and closes. */
export class Server {
  readonly explain: Explain;
  private readonly parts: ServerParts;
  private found = NOTHING_FOUND;
  private hasStarted = false;

  constructor(parts: ServerParts) {
    this.parts = parts;
    this.explain = createExplain(parts.services);
  }

  /** The configuration in use. */
  get config(): Config {
    return this.parts.snapshots.read().config;
  }

  get upstreams(): Upstreams {
    return this.parts.snapshots.read().upstreams;
  }

  get isDraining(): boolean {
    return this.parts.inFlight.isDraining;
  }

  /** Listens; resolves with the port. Rejects when it cannot be had. */
  async start(): Promise<number> {
    const { services, coordination, overload, listener, certificate, isWorker } = this.parts;
    this.hasStarted = true;
    this.parts.snapshots.read().clients?.start();
    // The very first request is to find what other replicas have cached, and no node is asked that operators cordoned
    // or spared.
    await coordination.whenReady(REDIS_TIMEOUT);
    this.upstreams.start();
    const port = await openListener(listener, { ...this.config.listen, isShared: isWorker }, "public");
    services.backgroundReader.start();
    overload.start();
    certificate?.start();
    return port;
  }

  /**
   * Works with `next` from now on: for requests to come. What did not change is taken over as it is; what is gone ends
   * with the requests that began with it.
   *
   * Rejects when a file that `next` names cannot be read; everything is as it was then.
   *
   * @param found what is used besides what is written; as before where it is left out
   */
  async reload(next: Config, found: FoundRegistries = this.found): Promise<void> {
    const { services, snapshots, memory, inFlight, onReload } = this.parts;
    const { clock, observers } = services;
    const { config, upstreams, clients } = snapshots.replace(next, found);
    this.found = found;
    if (this.hasStarted) {
      this.upstreams.start();
      clients?.stop();
      snapshots.read().clients?.start();
    }
    memory.resize(next.cache.memory);
    if (next.log.level !== config.log.level) observers.log.level = next.log.level;
    onReload(upstreams, this.upstreams);
    const users = Promise.all([settledWithin(inFlight.settled(), RETIREMENT, clock), sleep(REFRESH_GRACE, clock)]);
    void upstreams.closeExcept(this.upstreams, users);
  }

  /** Works with what was found from now on, as with a reload, and with the configuration in use. */
  async use(found: FoundRegistries): Promise<void> {
    if (!isDeepStrictEqual(found, this.found)) await this.reload(this.config, found);
  }

  /** `/status` besides version and uptime. */
  status(): ProcessStatus {
    const { memory, coordination, services, certificates } = this.parts;
    return statusOf({
      memory,
      config: this.config,
      redis: coordination.redisStatus(),
      coordinator: coordination.coordinator,
      upstreams: this.upstreams,
      clock: services.clock,
      certificates: certificates(),
    });
  }

  /** See `act`. */
  act(request: ActRequest): Promise<ActResult> {
    const { coordination, services } = this.parts;
    return act({ coordinator: coordination.coordinator, upstreams: this.upstreams, clock: services.clock }, request);
  }

  /** What `/clients` answers. */
  clients(): ClientsReport {
    const { services, snapshots } = this.parts;
    return reportClients(snapshots.read().clients, services.observers.clients.uses(), services.clock);
  }

  /** What `/requests` answers. */
  requests(filter: RequestFilter): RequestsReport {
    return this.parts.services.observers.recent.latest(filter);
  }

  /** What `/cache` answers. */
  cache(preview: PurgePreview): Promise<CacheAnswer> {
    const { memory, coordination, services, isWorker } = this.parts;
    const { coordinator } = coordination;
    const behind = coordination.redisStatus().configured ? "redis" : isWorker ? "primary" : null;
    return reportCache({ memory, coordinator, upstreams: this.upstreams, clock: services.clock, behind }, preview);
  }

  /** What the history takes of this process. */
  sample(): HistorySample {
    return this.parts.sample();
  }

  /** See `purge`. */
  purge(body: unknown): Promise<PurgeResult> {
    const { services, coordination } = this.parts;
    const hasRedis = coordination.redisStatus().configured;
    return purge(
      { coordinator: coordination.coordinator, upstreams: this.upstreams, clock: services.clock, hasRedis },
      body,
    );
  }

  /** From now on every answer closes its connection, so that clients go elsewhere. */
  announceDrain(): void {
    this.parts.inFlight.isDraining = true;
  }

  /** Stops accepting, finishes what runs within `shutdown.timeout`, refuses the rest, and closes everything. */
  async drain(): Promise<void> {
    const { services, coordination, comparisons, overload, listener, connections, certificate, inFlight } = this.parts;
    const { clock, backgroundReader, cache, bodies, observers } = services;
    this.announceDrain();
    certificate?.stop();
    await drain({ listener, connections, inFlight, clock, timeout: this.config.shutdown.timeout });
    overload.stop();
    await settledWithin(backgroundReader.stop(), CLOSE_TIMEOUT, clock);
    await cache.drain();
    await settledWithin(this.upstreams.close(), CLOSE_TIMEOUT, clock);
    this.parts.snapshots.read().clients?.stop();
    bodies.close();
    comparisons.bodies.close();
    await settledWithin(coordination.coordinator.close(), CLOSE_TIMEOUT, clock);
    if (observers.tracing !== undefined) await settledWithin(observers.tracing.close(), CLOSE_TIMEOUT, clock);
  }
}
