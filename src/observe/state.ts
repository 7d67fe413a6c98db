import type { Cache } from "../cache/cache.ts";
import type { Clock } from "../clock.ts";
import type { Snapshot } from "../requests/snapshot.ts";
import type { Sharing, SharingStatus } from "../sharing/ports.ts";
import type { UpstreamStatus } from "../upstream/types.ts";
import { type CertificateEnd, certificateEnds } from "./certificates.ts";

/** Outcome of the last look at the configuration. */
export interface ReloadState {
  /** When the running configuration was taken, Unix ms. */
  readonly takenAt: number;
  /** The last one was refused, and the one before it runs. */
  readonly refused?: {
    /** Unix ms. */
    readonly at: number;
    /** The first problem with its line, printable. */
    readonly problem: string;
  };
}

/** State of the whole gateway at one moment, from which `/status`, its health and the gauges of `/metrics` are made. */
export interface GatewayState {
  /** Unix ms. */
  readonly now: number;
  readonly digest: string;
  readonly reload: ReloadState;
  readonly redis: SharingStatus;
  readonly cache: { readonly bytes: number; readonly entries: number; readonly maxBytes: number };
  readonly certificates: readonly CertificateEnd[];
  readonly upstreams: readonly UpstreamStatus[];
  /** Connections of clients that are open. */
  readonly connections: number;
  /** Lines of the log that nobody read in time. */
  readonly droppedLines: number;
}

interface StateSources {
  readonly snapshot: () => Snapshot;
  readonly reload: () => ReloadState;
  readonly connections: () => number;
  readonly droppedLines: () => number;
  readonly sharing: Pick<Sharing, "status">;
  readonly cache: Pick<Cache, "stats">;
  readonly clock: Clock;
}

/** The state of this moment. */
export function readState(sources: StateSources): GatewayState {
  const { loaded, upstreams } = sources.snapshot();
  return {
    now: sources.clock.wallNow(),
    digest: loaded.digest,
    reload: sources.reload(),
    redis: sources.sharing.status(),
    cache: { ...sources.cache.stats(), maxBytes: loaded.config.cache.memory },
    certificates: certificateEnds(loaded),
    upstreams: upstreams.all.map((upstream) => upstream.status()),
    connections: sources.connections(),
    droppedLines: sources.droppedLines(),
  };
}
