import type { Duration, Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";

/** Where the numbers of an entry came from: a header field with its directive, or a configuration key. For people. */
export interface EntryOrigins {
  readonly lifetime: string;
  readonly staleWhileRevalidate: string;
  readonly staleIfError: string;
}

/** One stored response. Immutable: a revalidation makes a new one. */
export interface Entry {
  readonly status: number;
  /**
   * End-to-end fields as they are stored: always with `Date`, a 200 always with `ETag`; without `Age`. Fields meant for
   * the gateway alone (`Registry-Gateway-Cache-Control`) are kept, a 304 may leave them out; they are dropped on sending.
   */
  readonly fields: Fields;
  /** The upstream's bytes, decoded from any content coding. */
  readonly body: Buffer;
  /** True when the `ETag` among `fields` was made here: the upstream does not know it, so it is never sent there. */
  readonly madeEtag: boolean;
  /** The epoch (see Coordinator.epochOf) read before the fetch began. */
  readonly epoch: string;
  /** The request fields this response was selected by (lower case, sorted); none for most. */
  readonly vary: readonly string[];
  /** Those fields' normalised values; equal strings mean the same variant. Empty when `vary` is. */
  readonly variant: string;
  /** When the response was received, or last validated. */
  readonly receivedAt: Instant;
  /** The instant at which the response was new at its origin: receipt minus corrected initial age (RFC 9111 §4.2.3). */
  readonly bornAt: Instant;
  /** Fresh before this instant. */
  readonly freshUntil: Instant;
  /** May be served while one refresh runs (RFC 5861 §3) before this instant; equal to freshUntil where not allowed. */
  readonly revalidateUntil: Instant;
  /** May be served when the upstream fails (RFC 5861 §4) before this instant; equal to freshUntil where not allowed. */
  readonly usableUntil: Instant;
  /** No window of anybody, a client's `max-stale` included, lets this be served stale (RFC 9111 §4.2.4). */
  readonly staleProhibited: boolean;
  /** What the upstream or the configuration promised as time to live, before bounding and shortening. */
  readonly lifetime: Duration;
  readonly origins: EntryOrigins;
}
