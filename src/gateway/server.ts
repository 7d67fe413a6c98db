import { isDeepStrictEqual } from "node:util";
import type { MemoryStore } from "../cache/stores/memory-store.ts";
import { type Duration, settledWithin, sleep } from "../clock.ts";
import type { CertificateStatus } from "../config/certificates.ts";
import type { Config } from "../config/schema.ts";
import type { Coordination } from "../sharing/coordination.ts";
import type { Services } from "../requests/context.ts";
import type { InFlight } from "../requests/in-flight.ts";
import { act, type ActRequest, type ActResult } from "../operations/actions.ts";
import type { RequestFilter, RequestsReport } from "../observe/request-log.ts";
import type { CacheContents } from "../operations/answers.ts";
import { type PurgePreview, reportCache } from "../operations/cache-report.ts";
import { type ClientsReport, reportClients } from "../operations/clients-report.ts";
import { createExplain, type Explain } from "../operations/explain.ts";
import { purge, type PurgeResult } from "../operations/purge.ts";
import { type ProcessStatus, statusOf } from "../operations/status.ts";
import { type FoundRegistries, NOTHING_FOUND } from "../upstream/found.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import type { Snapshots } from "./snapshots.ts";

/** What a server is made of; the composition root builds it. */
export interface ServerParts {
  readonly services: Services;
  readonly snapshots: Snapshots;
  readonly memory: MemoryStore;
  readonly coordination: Coordination;
  readonly inFlight: InFlight;
  /** Those of the process itself, those of upstreams apart. */
  readonly certificates: () => readonly CertificateStatus[];
  /** Called for the snapshot that a reload brings: upstreams may have come and gone. */
  readonly onReload: (before: Upstreams, after: Upstreams) => void;
}

/** Upstreams that a reload replaced are kept for requests that began before it, but no longer. */
const RETIREMENT: Duration = 60_000;

/** A refresh in the background that began just before a reload, and is no client's request, gets this long to call. */
const REFRESH_GRACE: Duration = 1_000;

/** What clients are answered with, how a reload replaces it, and what operators see and change of it. */
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
    return this.parts.snapshots.latest.config;
  }

  get upstreams(): Upstreams {
    return this.parts.snapshots.latest.upstreams;
  }

  /** Follows clients' keys and asks nodes for their proofs, from now on and after each reload. */
  start(): void {
    this.hasStarted = true;
    this.parts.snapshots.latest.clients?.start();
    this.upstreams.start();
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
      snapshots.latest.clients?.start();
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
      actions: coordination.coordinator.actions,
      upstreams: this.upstreams,
      clock: services.clock,
      certificates: certificates(),
    });
  }

  /** See `act`. */
  act(request: ActRequest): Promise<ActResult> {
    const { coordination, services } = this.parts;
    return act(
      { actions: coordination.coordinator.actions, upstreams: this.upstreams, clock: services.clock },
      request,
    );
  }

  /** What `/clients` answers. */
  clients(): ClientsReport {
    const { services, snapshots } = this.parts;
    return reportClients(snapshots.latest.clients, services.observers.clients.uses(), services.clock);
  }

  /** What `/requests` answers. */
  requests(filter: RequestFilter): RequestsReport {
    return this.parts.services.observers.recent.latest(filter);
  }

  /** What `/cache` answers. */
  cache(preview: PurgePreview): Promise<CacheContents> {
    const { memory, coordination, services } = this.parts;
    const { epochs } = coordination.coordinator;
    const behind = coordination.redisStatus().configured ? "redis" : null;
    return reportCache({ memory, epochs, upstreams: this.upstreams, clock: services.clock, behind }, preview);
  }

  /** See `purge`. */
  purge(body: unknown): Promise<PurgeResult> {
    const { services, coordination } = this.parts;
    const hasRedis = coordination.redisStatus().configured;
    return purge(
      { epochs: coordination.coordinator.epochs, upstreams: this.upstreams, clock: services.clock, hasRedis },
      body,
    );
  }

  /** Ends what {@link start} began. */
  async stop(): Promise<void> {
    this.parts.snapshots.latest.clients?.stop();
    await this.upstreams.close();
  }
}
