import type { Duration } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import type { ActionMessage } from "../coordination/actions.ts";
import type { CallGrant, CallLimit, FetchOutcome } from "../coordination/coordinator.ts";
import type { SlotClaim, TokenClaim, TokenGrant } from "../coordination/shared-limits.ts";
import type { EpochChange, EpochSnapshot } from "../coordination/epochs.ts";
import type { ActRequest, ActResult } from "../operations/actions.ts";
import type { HistorySample } from "../observe/history-sample.ts";
import type { RequestFilter, RequestsReport } from "../observe/request-log.ts";
import type { CacheAnswer } from "../operations/answers.ts";
import type { PurgePreview } from "../operations/cache-report.ts";
import type { ClientsReport } from "../operations/clients-report.ts";
import type { PathExplanation } from "../operations/explain.ts";
import type { PurgeResult } from "../operations/purge.ts";
import type { ProcessStatus } from "../operations/status.ts";
import type { FoundRegistries } from "../upstream/found.ts";
import type { MetricsSnapshot } from "./metrics.ts";

/** A page that issued a token. */
export interface IssuedChain {
  readonly partition: string;
  readonly chain: string;
  readonly digest: string;
}

/** What a purge is about. */
interface PurgeScopes {
  /** Undefined: every partition. */
  readonly partition: string | undefined;
  readonly scopes: readonly string[];
}

/** An entry of the cache on its way between processes, as bytes that only workers read. */
export interface SharedEntry {
  readonly bytes: Buffer;
  /** How long ago the instants in it were written relative to the moment. */
  readonly age: Duration;
}

/** An entry that a worker shares. */
export interface SharedWrite {
  readonly key: string;
  readonly variant: string;
  readonly epoch: string;
  readonly bytes: Buffer;
  /** Wall-clock time of sending: all processes of a machine have the same. */
  readonly sentAt: number;
}

/** What is said of something that the workers share. */
export interface Shared<T> {
  readonly value: T;
  /** Among so many workers. */
  readonly workers: number;
}

/** What a worker has a copy of. */
export interface JoinReply {
  readonly epochs: EpochSnapshot;
  readonly actions: readonly ActionMessage[];
}

/** What a worker needs to begin. */
export interface Boot extends WorkerConfig {
  readonly id: number;
}

/** What a worker is to work with. */
export interface WorkerConfig {
  readonly config: Config;
  readonly found: FoundRegistries;
}

/** How a worker is, told twice a second. */
export type WorkerState = ProcessStatus;

/** What workers ask and tell their primary. Times are durations: every process has a clock of its own. */
export interface PrimaryTopics {
  /** Its modules are loaded: it hears what it is told from now on. */
  readonly begin: { readonly payload: undefined; readonly reply: Boot };
  /** It answers clients from now on. */
  readonly listening: { readonly payload: number; readonly reply: undefined };
  /** It cannot begin; it ends by itself. */
  readonly failed: { readonly payload: string; readonly reply: undefined };
  /** It lives. */
  readonly beat: { readonly payload: WorkerState; readonly reply: undefined };

  /** It wants copies of epochs and actions, and hears of changes from now on. */
  readonly join: { readonly payload: undefined; readonly reply: JoinReply };
  /** Resolves when every worker knows of it, the one that asked included. */
  readonly purge: { readonly payload: PurgeScopes; readonly reply: undefined };
  /** Resolves when every worker knows of it, the one that asked included. */
  readonly act: { readonly payload: ActionMessage; readonly reply: undefined };
  readonly chain: { readonly payload: IssuedChain; readonly reply: undefined };
  readonly acquire: { readonly payload: string; readonly reply: boolean };
  readonly release: { readonly payload: { key: string; outcome: FetchOutcome }; readonly reply: undefined };
  readonly wait: { readonly payload: { key: string; timeout: Duration }; readonly reply: FetchOutcome | undefined };
  readonly takeCall: { readonly payload: { name: string; limit: CallLimit }; readonly reply: CallGrant };
  readonly takeTokens: { readonly payload: { name: string; claim: TokenClaim }; readonly reply: Shared<TokenGrant> };
  readonly holdSlots: { readonly payload: { name: string; claim: SlotClaim }; readonly reply: Shared<number> };
  readonly remember: { readonly payload: { key: string; value: string; ttl: Duration }; readonly reply: undefined };
  readonly recall: { readonly payload: string; readonly reply: string | undefined };
  /** For all other workers. */
  readonly announce: { readonly payload: string; readonly reply: undefined };

  readonly getEntries: { readonly payload: string; readonly reply: readonly SharedEntry[] };
  readonly setEntry: { readonly payload: SharedWrite; readonly reply: undefined };
  readonly deleteEntries: { readonly payload: string; readonly reply: undefined };
}

/** What the primary asks and tells its workers. */
export interface WorkerTopics {
  /** A purge; the reply says that it has effect. */
  readonly purged: { readonly payload: EpochChange; readonly reply: undefined };
  /** What an operator did; the reply says that it has effect. */
  readonly acted: { readonly payload: ActionMessage; readonly reply: undefined };
  readonly chained: { readonly payload: IssuedChain; readonly reply: undefined };
  readonly announced: { readonly payload: string; readonly reply: undefined };

  readonly reload: { readonly payload: WorkerConfig; readonly reply: undefined };
  readonly metrics: { readonly payload: undefined; readonly reply: MetricsSnapshot };
  readonly cache: { readonly payload: PurgePreview; readonly reply: CacheAnswer };
  readonly sample: { readonly payload: undefined; readonly reply: HistorySample };
  /** The body of an operator's purge, which one worker carries out for all. */
  readonly operatorPurge: { readonly payload: unknown; readonly reply: PurgeResult };
  /** The same for an operator's action. */
  readonly operatorAct: { readonly payload: ActRequest; readonly reply: ActResult };
  readonly explain: { readonly payload: string; readonly reply: PathExplanation };
  readonly clients: { readonly payload: undefined; readonly reply: ClientsReport };
  readonly requests: { readonly payload: RequestFilter; readonly reply: RequestsReport };
  /** Answers close their connections from now on. */
  readonly announceDrain: { readonly payload: undefined; readonly reply: undefined };
  /** Stop accepting, finish, and end. */
  readonly drain: { readonly payload: undefined; readonly reply: undefined };
}
