import { ClientAddresses } from "../clients/client-address.ts";
import type { Clients } from "../clients/clients.ts";
import type { Config } from "../config/schema.ts";
import { RegistryMetadata, type RegistryMetadataOptions } from "../registry/registry-metadata.ts";
import type { Snapshot } from "../requests/context.ts";
import { HitMemo } from "../requests/hit.ts";
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
}

/** The snapshot that requests take, and how a reload replaces it. */
export class Snapshots {
  private readonly parts: SnapshotParts;
  /** For a request that begins now. */
  latest: Snapshot;

  /** @throws when a file that the configuration names cannot be read */
  constructor(config: Config, parts: SnapshotParts) {
    this.parts = parts;
    this.latest = this.build(config, NOTHING_FOUND);
  }

  /**
   * Replaces the current snapshot by one of what is written and what was found. What did not change is in the new one as it was: upstreams with their nodes, breakers
   * and limits, and what is known of their listings.
   *
   * @returns the snapshot before, for requests that began with it
   * @throws when a file that `config` names cannot be read; the current snapshot stays
   */
  replace(config: Config, found: FoundRegistries): Snapshot {
    const before = this.latest;
    this.latest = this.build(config, found, before);
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
