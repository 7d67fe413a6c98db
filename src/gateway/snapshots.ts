import { Clients } from "../clients/clients.ts";
import type { Cache } from "../cache/cache.ts";
import type { Clock } from "../clock.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import type { Logger } from "../observe/log.ts";
import { Registry } from "../registry/registry.ts";
import type { Snapshot } from "../requests/snapshot.ts";
import { type UpstreamParts, Upstreams } from "../upstream/upstreams.ts";

interface SnapshotOptions {
  readonly upstream: UpstreamParts;
  readonly cache: Cache;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The snapshot in use. A reload makes the next one, which takes over what did not change. */
export class Snapshots {
  private readonly options: SnapshotOptions;
  private current: Snapshot;

  constructor(loaded: LoadedConfig, options: SnapshotOptions) {
    this.options = options;
    this.current = this.create(loaded, undefined);
  }

  get latest(): Snapshot {
    return this.current;
  }

  /** Puts a configuration to use for requests to come; those that run keep the snapshot that they took. */
  replace(loaded: LoadedConfig): void {
    const previous = this.current;
    this.current = this.create(loaded, previous);
    this.current.upstreams.start();
    previous.upstreams.close(this.current.upstreams);
  }

  close(): void {
    this.current.upstreams.close();
  }

  private create(loaded: LoadedConfig, previous: Snapshot | undefined): Snapshot {
    const { upstream, cache, clock, log } = this.options;
    const upstreams = new Upstreams(loaded, previous?.upstreams, upstream);
    const registries = new Map(upstreams.all.map((each) => [each.name, new Registry(each, { cache, clock, log })]));
    return { loaded, upstreams, registries, clients: Clients.create(loaded, previous?.clients, { clock }) };
  }
}
