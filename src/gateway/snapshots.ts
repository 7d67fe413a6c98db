import { isDeepStrictEqual } from "node:util";
import type { MemoryStore } from "../cache/stores/memory-store.ts";
import { type Clock, type Duration, settledWithin, sleep } from "../clock.ts";
import { ClientAddresses } from "../clients/client-address.ts";
import type { Clients } from "../clients/clients.ts";
import type { Config } from "../config/schema.ts";
import type { Logger } from "../observe/log.ts";
import { RegistryMetadata, type RegistryMetadataOptions } from "../registry/registry-metadata.ts";
import type { Snapshot } from "../requests/context.ts";
import { HitMemo } from "../requests/hit.ts";
import type { InFlight } from "../requests/in-flight.ts";
import { createCors } from "../requests/send.ts";
import { addressingOf } from "../requests/target.ts";
import { type FoundRegistries, NOTHING_FOUND, upstreamsOf } from "../upstream/found.ts";
import type { UpstreamEnvironment } from "../upstream/parts.ts";
import { Upstreams } from "../upstream/upstreams.ts";

/** What every snapshot of a process is made with. */
export interface SnapshotParts {
  readonly upstream: Omit<UpstreamEnvironment, "limits">;
  readonly registry: Omit<RegistryMetadataOptions, "upstream">;
  /** Who calls, by `config.clients`; what did not change is taken from those before. */
  clients(config: Config, previous: Clients | undefined): Clients;
  readonly clock: Clock;
  /** Its room, and the level of the log, are those of the configuration in use. */
  readonly memory: MemoryStore;
  readonly log: Logger;
  readonly inFlight: InFlight;
  /** Called for the snapshot that a reload brings: upstreams may have come and gone. */
  readonly onReload: (before: Upstreams, after: Upstreams) => void;
}

/** Upstreams that a reload replaced are kept for requests that began before it, but no longer. */
const RETIREMENT: Duration = 60_000;

/** A refresh in the background that began just before a reload, and is no client's request, gets this long to call. */
const REFRESH_GRACE: Duration = 1_000;

/** The snapshot that requests take, and how a reload replaces it. */
export class Snapshots {
  private readonly parts: SnapshotParts;
  private found = NOTHING_FOUND;
  private hasStarted = false;
  /** For a request that begins now. */
  latest: Snapshot;

  /** @throws when a file that the configuration names cannot be read */
  constructor(config: Config, parts: SnapshotParts) {
    this.parts = parts;
    this.latest = this.build(config, this.found);
  }

  /** Follows clients' keys and asks nodes for their proofs, from now on and after each reload. */
  start(): void {
    this.hasStarted = true;
    this.latest.clients?.start();
    this.latest.upstreams.start();
  }

  /**
   * Works with `next` from now on: for requests to come. What did not change is taken over as it is: upstreams with their
   * nodes, breakers and limits, and what is known of their listings. What is gone ends with the requests that began with it.
   *
   * Rejects when a file that `next` names cannot be read; everything is as it was then.
   *
   * @param found what is used besides what is written; as before where it is left out
   */
  async reload(next: Config, found: FoundRegistries = this.found): Promise<void> {
    const { clock, memory, log, inFlight, onReload } = this.parts;
    const { config, upstreams, clients } = this.replace(next, found);
    if (this.hasStarted) {
      this.latest.upstreams.start();
      clients?.stop();
      this.latest.clients?.start();
    }
    memory.resize(next.cache.memory);
    if (next.log.level !== config.log.level) log.level = next.log.level;
    onReload(upstreams, this.latest.upstreams);
    const users = Promise.all([settledWithin(inFlight.settled(), RETIREMENT, clock), sleep(REFRESH_GRACE, clock)]);
    void upstreams.closeExcept(this.latest.upstreams, users);
  }

  /** Works with what was found from now on, as with a reload, and with the configuration in use. */
  async use(found: FoundRegistries): Promise<void> {
    if (!isDeepStrictEqual(found, this.found)) await this.reload(this.latest.config, found);
  }

  /** Ends what {@link start} began. */
  async stop(): Promise<void> {
    this.latest.clients?.stop();
    await this.latest.upstreams.close();
  }

  /**
   * @returns the snapshot before, for requests that began with it
   * @throws when a file that `config` names cannot be read; the current snapshot stays
   */
  private replace(config: Config, found: FoundRegistries): Snapshot {
    const before = this.latest;
    this.latest = this.build(config, found, before);
    this.found = found;
    return before;
  }

  private build(config: Config, found: FoundRegistries, previous?: Snapshot): Snapshot {
    const { upstream: environment, registry } = this.parts;
    // First what may be refused: new upstreams take the place of those in use among the admins.
    const clients = config.clients && this.parts.clients(config, previous?.clients);
    const upstreams = new Upstreams(config.upstreams, { ...environment, limits: config.limits }, previous?.upstreams, {
      configs: upstreamsOf(config, found),
      isComplete: found.isComplete,
    });
    const registries = upstreams.all.map(
      (upstream) =>
        [upstream, previous?.registries.get(upstream) ?? new RegistryMetadata({ ...registry, upstream })] as const,
    );
    return createSnapshot({ config, upstreams, registries: new Map(registries), clients });
  }
}

function createSnapshot(parts: Omit<Snapshot, "cors" | "hits" | "addressing" | "addresses">): Snapshot {
  const { cache, cors, routing, listen } = parts.config;
  return {
    ...parts,
    cors: createCors(cors, routing.adminHeader),
    addresses: new ClientAddresses(listen.trustedProxies),
    hits: new HitMemo(cache.memory.maxBytes),
    addressing: addressingOf(routing.prefix, parts.upstreams.all),
  };
}
