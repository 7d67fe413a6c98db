import type { Duration, Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";

/** One stored response. Immutable: a revalidation makes a new one. */
export interface Entry {
  readonly status: number;
  /** End-to-end fields as they go to clients, without Age. */
  readonly fields: Fields;
  /** The upstream's bytes, decoded from any content coding. */
  readonly body: Buffer;
  /** The generation (see Coordinator.generation) read before the fetch began. */
  readonly generation: string;
  /** The instant at which the response was new at its origin: receipt minus corrected initial age (RFC 9111 §4.2.3). */
  readonly bornAt: Instant;
  /** Fresh before this instant. */
  readonly freshUntil: Instant;
  /** May be served while one refresh runs (RFC 5861 §3) before this instant; equal to freshUntil where not allowed. */
  readonly revalidateUntil: Instant;
  /** May be served when the upstream fails (RFC 5861 §4) before this instant; equal to freshUntil where not allowed. */
  readonly usableUntil: Instant;
  /** What the upstream or the configuration promised as time to live, before shortening. */
  readonly lifetime: Duration;
}
