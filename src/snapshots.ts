import type { Config } from "./config/schema.ts";
import { createSnapshot, type Snapshot } from "./http/snapshot.ts";
import { RegistryMetadata, type RegistryMetadataOptions } from "./registry/registry-metadata.ts";
import type { UpstreamEnvironment } from "./upstream/parts.ts";
import { Upstreams } from "./upstream/upstreams.ts";

/** What every snapshot of a process is made with. */
export interface SnapshotParts {
  readonly upstream: Omit<UpstreamEnvironment, "limits">;
  readonly registry: Omit<RegistryMetadataOptions, "upstream">;
}

/** The snapshot that requests take, and how a reload replaces it. */
export class Snapshots {
  private readonly parts: SnapshotParts;
  private latest: Snapshot;

  /** @throws when a file that the configuration names cannot be read */
  constructor(config: Config, parts: SnapshotParts) {
    this.parts = parts;
    this.latest = this.build(config, undefined);
  }

  /** For a request that begins now. */
  get current(): Snapshot {
    return this.latest;
  }

  /**
   * Replaces the current snapshot. What did not change is in the new one as it was: upstreams with their nodes, breakers
   * and limits, and what is known of their listings.
   *
   * @returns the snapshot before, for requests that began with it
   * @throws when a file that `config` names cannot be read; the current snapshot stays
   */
  replace(config: Config): Snapshot {
    const before = this.latest;
    this.latest = this.build(config, before);
    return before;
  }

  private build(config: Config, previous: Snapshot | undefined): Snapshot {
    const { upstream: environment, registry } = this.parts;
    const upstreams = new Upstreams(config.upstreams, { ...environment, limits: config.limits }, previous?.upstreams);
    const registries = upstreams.all.map(
      (upstream) =>
        [upstream, previous?.registries.get(upstream) ?? new RegistryMetadata({ ...registry, upstream })] as const,
    );
    return createSnapshot(config, upstreams, new Map(registries));
  }
}
