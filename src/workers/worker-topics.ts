import type { Duration } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import type { HubTopics, MemberTopics } from "./topics.ts";
import type { PathExplanation } from "../operations/explain.ts";
import type { PurgeResult } from "../operations/purge.ts";
import type { MetricsSnapshot } from "./fleet-metrics.ts";
import type { ServingStatus } from "../serving.ts";

/** An entry of the cache on its way between processes, as bytes that only workers read. */
export interface ShelvedEntry {
  readonly bytes: Buffer;
  /** How long ago the instants in it were written relative to the moment. */
  readonly age: Duration;
}

/** An entry for the shelf. */
export interface ShelvedWrite {
  readonly key: string;
  readonly variant: string;
  readonly epoch: string;
  readonly bytes: Buffer;
  /** Wall-clock time of sending: all processes of a machine have the same. */
  readonly sentAt: number;
}

/** What a worker needs to begin. */
export interface Boot {
  readonly id: number;
  readonly config: Config;
}

/** How a worker is, told twice a second. */
export type WorkerState = ServingStatus;

/** What workers ask and tell their primary. */
export interface PrimaryTopics extends HubTopics {
  /** Its modules are loaded: it hears what it is told from now on. */
  readonly begin: { readonly payload: undefined; readonly reply: Boot };
  /** It answers clients from now on. */
  readonly listening: { readonly payload: number; readonly reply: undefined };
  /** It cannot begin; it ends by itself. */
  readonly failed: { readonly payload: string; readonly reply: undefined };
  /** It lives. */
  readonly beat: { readonly payload: WorkerState; readonly reply: undefined };
  readonly shelf: { readonly payload: string; readonly reply: readonly ShelvedEntry[] };
  readonly shelve: { readonly payload: ShelvedWrite; readonly reply: undefined };
  readonly unshelve: { readonly payload: string; readonly reply: undefined };
}

/** What the primary asks and tells its workers. */
export interface WorkerTopics extends MemberTopics {
  readonly reload: { readonly payload: Config; readonly reply: undefined };
  readonly metrics: { readonly payload: undefined; readonly reply: MetricsSnapshot };
  /** The body of an operator's purge, which one worker carries out for all. */
  readonly operatorPurge: { readonly payload: unknown; readonly reply: PurgeResult };
  readonly explain: { readonly payload: string; readonly reply: PathExplanation };
  /** Answers close their connections from now on. */
  readonly announceDrain: { readonly payload: undefined; readonly reply: undefined };
  /** Stop accepting, finish, and end. */
  readonly drain: { readonly payload: undefined; readonly reply: undefined };
}
