/**
 * The eleven endpoints of the token-registry API as data (spec.md §4) and the v2 factories whose bodies name an admin.
 */

/** Names of the endpoints: metric label, log field, purge and explain argument. `pass_through` is everything else. */
export type Operation =
  | "info"
  | "instruments"
  | "instrument"
  | "transfer_factory"
  | "transfer_accept"
  | "transfer_reject"
  | "transfer_withdraw"
  | "allocation_execute"
  | "allocation_withdraw"
  | "allocation_cancel"
  | "allocation_factory"
  | "pass_through";

/** The endpoints whose answers are cached. */
export type CachedOperation = "info" | "instruments" | "instrument";
