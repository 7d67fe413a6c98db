import type { Duration } from "../clock.ts";
import type { Purge, PurgeRecord } from "./cluster-epochs.ts";
import type { CallGrant, CallLimit, FetchOutcome } from "./coordinator.ts";

/** A page that issued a token. */
export interface IssuedChain {
  readonly partition: string;
  readonly chain: string;
  readonly digest: string;
}

/** What a member has to know before it begins. */
export interface Knowledge {
  /** This member's name among purges. */
  readonly name: string;
  readonly epochs: PurgeRecord;
  readonly chains: readonly IssuedChain[];
}

/** What members ask and tell the hub. Times are durations: every process has a clock of its own. */
export interface HubTopics {
  readonly join: { readonly payload: undefined; readonly reply: Knowledge };
  /** Resolves when every member knows of it. */
  readonly purge: { readonly payload: Purge; readonly reply: undefined };
  readonly chain: { readonly payload: IssuedChain; readonly reply: undefined };
  readonly acquire: { readonly payload: string; readonly reply: boolean };
  readonly release: { readonly payload: { key: string; outcome: FetchOutcome }; readonly reply: undefined };
  readonly wait: { readonly payload: { key: string; patience: Duration }; readonly reply: FetchOutcome | undefined };
  readonly takeCall: { readonly payload: { name: string; limit: CallLimit }; readonly reply: CallGrant };
  readonly remember: { readonly payload: { key: string; value: string; ttl: Duration }; readonly reply: undefined };
  readonly recall: { readonly payload: string; readonly reply: string | undefined };
}

/** What the hub asks and tells members. */
export interface MemberTopics {
  /** A purge elsewhere; the reply says that it has effect. */
  readonly purged: { readonly payload: Purge; readonly reply: undefined };
  /** Everything was purged. */
  readonly renewed: { readonly payload: number; readonly reply: undefined };
  readonly chained: { readonly payload: IssuedChain; readonly reply: undefined };
}
