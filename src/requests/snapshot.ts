import type { Clients } from "../clients/clients.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import type { Registry } from "../registry/registry.ts";
import type { Upstreams } from "../upstream/upstreams.ts";

/** All that a reload changes, at one moment. Immutable; a request takes it once and keeps it. */
export interface Snapshot {
  readonly loaded: LoadedConfig;
  readonly upstreams: Upstreams;
  /** Registries by the names of their upstreams. */
  readonly registries: ReadonlyMap<string, Registry>;
  /** Undefined: everybody may call, without limits. */
  readonly clients: Clients | undefined;
}
