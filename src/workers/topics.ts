import type { Duration } from "../clock.ts";
import type { CallGrant, CallLimit, FetchOutcome } from "../coordination/coordinator.ts";
import type { EpochChange, EpochSnapshot } from "../coordination/epochs.ts";

/** A page that issued a token. */
export interface IssuedChain {
  readonly partition: string;
  readonly chain: string;
  readonly digest: string;
}

/** What a member has to know before it begins. */
export interface Knowledge {
  readonly epochs: EpochSnapshot;
  readonly chains: readonly IssuedChain[];
}

/** What a purge is about. */
export interface PurgeScopes {
  /** Undefined: every partition. */
  readonly partition: string | undefined;
  readonly scopes: readonly string[];
}

/** What members ask and tell the hub. Times are durations: every process has a clock of its own. */
export interface HubTopics {
  readonly join: { readonly payload: undefined; readonly reply: Knowledge };
  /** Resolves when every member knows of it, the one that asked included. */
  readonly purge: { readonly payload: PurgeScopes; readonly reply: undefined };
  readonly chain: { readonly payload: IssuedChain; readonly reply: undefined };
  readonly acquire: { readonly payload: string; readonly reply: boolean };
  readonly release: { readonly payload: { key: string; outcome: FetchOutcome }; readonly reply: undefined };
  readonly wait: { readonly payload: { key: string; patience: Duration }; readonly reply: FetchOutcome | undefined };
  readonly takeCall: { readonly payload: { name: string; limit: CallLimit }; readonly reply: CallGrant };
  readonly remember: { readonly payload: { key: string; value: string; ttl: Duration }; readonly reply: undefined };
  readonly recall: { readonly payload: string; readonly reply: string | undefined };
  /** For all other members. */
  readonly announce: { readonly payload: string; readonly reply: undefined };
}

/** What the hub asks and tells members. */
export interface MemberTopics {
  /** A purge; the reply says that it has effect. */
  readonly purged: { readonly payload: EpochChange; readonly reply: undefined };
  readonly chained: { readonly payload: IssuedChain; readonly reply: undefined };
  readonly announced: { readonly payload: string; readonly reply: undefined };
}
