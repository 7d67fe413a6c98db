import type { PurgeReach } from "./ports.ts";
import type { Instant } from "../clock.ts";

/** A replica by name and build. */
export interface ReplicaName {
  readonly name: string;
  readonly version: string;
  /** Of the sources that it was built from. */
  readonly revision: string;
}

/** A replica as `/status` shows it. */
export interface ReplicaReport extends ReplicaName {
  /** When it started (RFC 3339). */
  readonly since: string;
}

/** How much a replica has to do. */
export interface ReplicaLoad {
  /** Answers a second, in the last seconds. */
  readonly requestsPerSecond: number;
  /** The share of time, from 0 to 1, in which its event loop had something to do. */
  readonly busy: number;
  /** 0 where it is not measured. */
  readonly residentBytes: number;
}

/** What a replica goes by: digests, the same where it goes by the same. */
export interface ReplicaFollows {
  /** The effective configuration but for its listeners, without secrets. */
  readonly configuration: string;
  /** The keys of clients; null: there is no keys file. */
  readonly clientKeys: string | null;
  /** What operators did that is in force. */
  readonly actions: string;
}

/** What a replica says of itself, each second. */
export interface ReplicaState {
  readonly uptimeSeconds: number;
  readonly load: ReplicaLoad;
  readonly follows: ReplicaFollows;
  /** Nodes that take no calls because they fail: the upstream and the place in its `urls`, `amulet 0`; 64 at most. */
  readonly nodesDown: readonly string[];
}

/** Nodes that a replica names, at most. */
export const MOST_NODES_DOWN = 64;

/** A replica that is alive. */
export interface Replica extends ReplicaReport {
  /** Undefined: it has not said yet. */
  readonly state?: ReplicaState | undefined;
}

/** A replica that ended without saying so, while Redis was there. */
export interface LostReplica {
  readonly name: string;
  /** When this process noticed. */
  readonly since: Instant;
}

/** Which replicas go by what an operator did. */
export interface ReplicasReached {
  /** Those that do, the one that answers first. */
  readonly took: readonly ReplicaName[];
  /**
   * Those that are alive and have not said so in time; they follow within 2 s while Redis is there. One with the name
   * `unknown` for each that cannot say it: of an earlier release, or with other seal keys.
   */
  readonly missing: readonly ReplicaName[];
  /** All of them together. */
  readonly of: number;
}

/** The replicas at one Redis, or this one alone. */
export interface ReplicasPort {
  /** Those known alive, this one first. */
  alive(): readonly Replica[];
  /** Those that ended without saying so and were not replaced, the latest first; forgotten after half an hour. */
  lost(): readonly LostReplica[];
  /** How many there are besides that cannot be read: of an earlier release, or with other seal keys. */
  countUnknown(): Promise<number>;
  /** Announces each second what `state` says of this one. */
  introduce(state: () => ReplicaState): void;
  /**
   * Which replicas go by what was purged and done here from `since` on, of which `reach` is how far it got. As soon as
   * all do, and within 1 s.
   */
  whoTook(since: Instant, reach: PurgeReach): Promise<ReplicasReached>;
}
