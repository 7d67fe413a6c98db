import type { Aggregation } from "../aggregate/aggregation.ts";
import type { BodyReader } from "../bodies/body-reader.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import type { Logger } from "../observe/log.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import type { BackgroundReader } from "../registry/background-reader.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Traffic } from "../observe/metrics/traffic.ts";
import type { Tracing } from "../observe/tracing/tracing.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import type { ClientConnections } from "./connections.ts";
import type { Cors } from "./cors.ts";
import type { HitMemo } from "./hit.ts";

/**
 * What one request works with: an immutable snapshot that it captures once, at its beginning. A reload swaps it for the
 * requests to come.
 */
export interface Runtime {
  readonly config: Config;
  readonly upstreams: Upstreams;
  /** The cached endpoints of each upstream. */
  readonly metadata: ReadonlyMap<Upstream, RegistryMetadata>;
  readonly cors: Cors;
  readonly hits: HitMemo;
}

/** What stays the same while the process lives. */
export interface Surroundings {
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly traffic: Traffic;
  /** Undefined where requests are not traced. */
  readonly tracing: Tracing | undefined;
  readonly version: string;
  readonly aggregation: Aggregation;
  /** Reads listings of registries in the background. */
  readonly backgroundReader: BackgroundReader;
  /** Those of the public listener. */
  readonly connections: ClientConnections;
  /** Reads the bodies of large requests. */
  readonly bodies: BodyReader;
  /** True once the process drains: answers close their connections. */
  isDraining(): boolean;
  /** The snapshot for a request that begins now. */
  runtime(): Runtime;
}
