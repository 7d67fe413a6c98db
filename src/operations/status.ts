import type { MemoryStore } from "../cache/stores/memory-store.ts";
import type { CertificateStatus } from "../config/certificates.ts";
import type { Config } from "../config/schema.ts";
import type { RedisPart } from "../sharing/coordination.ts";
import type { UpstreamStatus } from "../upstream/status.ts";
import { type ActionReport, type ActParts, reportInForce } from "./actions.ts";

/** The `cache` part of `/status`; the tier behind it is Redis, see {@link RedisPart}. */
export interface CachePart {
  readonly memory: { readonly entries: number; readonly bytes: number; readonly maxBytes: number };
}

/** How a process that answers clients is: `/status` besides version and uptime. */
export interface ProcessStatus {
  readonly cache: CachePart;
  readonly redis: RedisPart;
  /** What operators did that has effect now. */
  readonly inForce: readonly ActionReport[];
  /** When certificates end that are no upstream's. */
  readonly certificates: readonly CertificateStatus[];
  readonly upstreams: readonly UpstreamStatus[];
}

export interface StatusSources extends ActParts {
  readonly memory: Pick<MemoryStore, "entries" | "bytes">;
  readonly config: Config;
  readonly redis: RedisPart;
  readonly certificates: readonly CertificateStatus[];
}

export function statusOf(sources: StatusSources): ProcessStatus {
  const { memory, config, redis, upstreams } = sources;
  const { entries, bytes } = memory;
  return {
    cache: { memory: { entries, bytes, maxBytes: config.cache.memory.maxBytes } },
    redis,
    inForce: reportInForce(sources),
    certificates: sources.certificates,
    upstreams: upstreams.status(),
  };
}
