import type { Duration, Instant, MaybePromise } from "../clock.ts";
import type { Limits } from "./limits.ts";
import type { RequestedAction, Actions } from "./actions.ts";
import type { ReplicasPort } from "./replicas.ts";

/**
 * What an entry of the cache depends on. When the epoch of any scope changes, or the page that issued its token
 * changes, the entry is never used again.
 */
export interface Dependencies {
  /** The cache's share of one registry: its admin's party id. */
  readonly partition: string;
  /** Purge scopes within the partition, for example `all`, `list`, `instrument:Amulet`. */
  readonly scopes: readonly string[];
  /** For a page behind a page token: the token's chain (page size and token), see {@link ChainsPort.issueChain}. */
  readonly chain?: string;
}

/**
 * How far a purge or an action got: this replica only, every replica (`fleet`, as `POST /purge` answers), or this replica and noted
 * down until Redis is back.
 */
export const PURGE_REACHES = ["replica", "fleet", "pending"] as const;
export type PurgeReach = (typeof PURGE_REACHES)[number];

/**
 * What became of the fetch that a lease was held for. `stored`: it can be looked up. `uncacheable`: there is nothing to
 * share, be it an answer that is not kept or an error; all who wait go themselves, at once. `failed`: it was given up,
 * or its process died; one of those who wait goes.
 */
export type FetchOutcome = "stored" | "uncacheable" | "failed";

/** The right to be the only process that fetches a key. Renewed by itself until released. */
export interface Lease {
  release(outcome: FetchOutcome): void;
}

/** What was purged. */
export interface EpochsPort {
  /**
   * The epochs of all these dependencies in one, as this process knows them now: equal strings mean nothing was
   * purged or re-chained in between. Undefined when `chain` names a token no page has issued: store nothing then;
   * and while this process does not know what was purged while it stood still.
   * Synchronous and cheap: it is asked on every hit.
   */
  epochOf(dependencies: Dependencies): string | undefined;

  /**
   * The soft purges that an entry stored now is later than, as one string; empty where there were none. `softVersion`
   * stays the same while it is the same for all dependencies: that is asked on every hit.
   */
  softEpochOf(dependencies: Dependencies): string;
  readonly softVersion: number;

  /**
   * When the first soft purge was (Unix ms) that is not among those of `since`, a {@link softEpochOf}: what depends on this is
   * stale since then. -Infinity: it is not known when. Undefined: there was none.
   */
  softPurgedAt(dependencies: Dependencies, since: string): number | undefined;

  /**
   * Gives the scopes of `partition` (undefined: of every partition) new epochs, here at once. Scopes named by `softScope`
   * are purged softly: entries become stale.
   */
  purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach>;
}

/** Which page tokens were issued. */
export interface ChainsPort {
  /**
   * Notes that a page issued a token: `chain` names it, `digest` stands for the contents of the page and of those
   * before it. Another digest than last time makes every entry behind the token unusable.
   */
  issueChain(partition: string, chain: string, digest: string): void;
}

/** What operators did to upstreams and nodes that is in force, as this process knows it. */
export interface ActionsPort extends Pick<Actions, "all" | "find" | "held" | "isFull" | "onChange"> {
  /** Has an operator's action in force, here at once, in the place of what is for the same upstream or node. */
  act(requested: RequestedAction): Promise<PurgeReach>;
}

/** A page of records: the latest before an id. */
export interface RecordPage {
  /** Undefined: from the latest on. */
  readonly before?: string | undefined;
  readonly limit: number;
}

export interface FoundRecords {
  /** Their texts, the latest first. */
  readonly records: readonly string[];
  /** How many of the page are not the gateway's, or sealed with a key that is gone. */
  readonly unreadable: number;
  /** The id of the page's last; undefined: there are no more behind it. */
  readonly last: string | undefined;
}

/** Characters of a record. */
export const LONGEST_RECORD = 8_192;

/** What operators did, kept for a month for all replicas to show. */
export interface AuditPort {
  /** Keeps a record, in the place of one with the same id. Ids have no space, and sort as what they stand for happened. */
  record(id: string, text: string): void;

  /** Undefined: nothing is shared, or it cannot be read now. */
  records(page: RecordPage): Promise<FoundRecords | undefined>;
}

/** One fetch for all who want the same. */
export interface LeasesPort {
  /** The lease for `key`, or undefined when another request or process has it. */
  acquire(key: string): MaybePromise<Lease | undefined>;

  /** Resolves when the holder of `key` released it, its lease ran out ("failed"), or `deadline` passed (undefined). */
  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined>;
}

/** Small facts, such as which admin a contract belongs to. */
export interface FactsPort {
  /** Keeps a small fact for `ttl`; bounded, so it may be forgotten sooner. */
  remember(key: string, value: string, ttl: Duration): void;

  /** What is remembered: by this process, and by what is shared where that is something else. */
  recall(key: string): MaybePromise<readonly string[]>;
}

/** What processes say to each other at once. */
export interface AnnouncementsPort {
  /**
   * Announces something to the other processes, at once. One that cannot be reached does not learn it; what did not reach Redis
   * is announced when it is there again, but not what `isBrief`, which is of no use by then.
   */
  announce(event: string, options?: { readonly isBrief: boolean }): void;

  /** Has `listener` called with what other processes announce, and with undefined when some of it may have been missed. */
  onAnnounced(listener: (event: string | undefined) => void): void;
}

/** A row of a table that replicas share. */
export interface Row {
  /** Of two rows with the same name the one with the higher version stays. */
  readonly version: number;
  /** When it ends by the clock of what is shared (Unix ms); undefined: it stays. */
  readonly until: Instant | undefined;
  readonly text: string;
}

/** What a table is to have that it lacks. */
export interface MergedRows {
  /** Undefined removes a row. */
  readonly rows: ReadonlyMap<string, Row | undefined>;
  /** The other replicas need not look at once. */
  readonly isQuiet?: boolean;
}

/** A small table that replicas share, and that lasts. */
export interface SharedRows {
  /**
   * Has `merge` called with each reading, and with what was written. It takes over what is newer in `rows`, and returns what
   * is missing there. `time` is that of what is shared.
   */
  follow(merge: (rows: ReadonlyMap<string, Row>, time: Instant) => MergedRows): void;
  /** Reads, and writes what is missing. Rejects while what is shared is away. */
  synchronise(): Promise<void>;
}

/** Larger texts that replicas keep for each other for a while, each under a name that stands for its contents. */
export interface SharedTexts {
  /** Rejects while what is shared is away. One that is too long is not kept. */
  write(name: string, text: string, ttl: Duration): Promise<void>;
  /** Undefined: it is not there. Rejects while what is shared is away. */
  read(name: string): Promise<string | undefined>;
}

/** The changes of the catalogue, and the instruments that they were found by. */
export interface SharedChanges {
  readonly log: SharedRows;
  readonly texts: SharedTexts;
}

/**
 * What replicas share, by ports. Consumers take those that they need. The local one serves one process, the one by Redis
 * replicas.
 *
 * No method rejects: when what is shared is away, ports answer from what this process knows.
 */
export interface Coordinator {
  readonly epochs: EpochsPort;
  readonly chains: ChainsPort;
  readonly actions: ActionsPort;
  readonly audit: AuditPort;
  readonly leases: LeasesPort;
  readonly limits: Limits;
  readonly facts: FactsPort;
  readonly announcements: AnnouncementsPort;
  readonly replicas: ReplicasPort;
  close(): Promise<void>;
}
