import type { Clock } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { type Bounds, type PlaceErrors, Places } from "./places.ts";

/** Share of the places that calls may have whose bodies are still arriving. */
const UPLOADS = 0.25;

/** Bounds how much runs at once to one upstream, so that a slow one takes nothing from the others. */
export class ConcurrencyLimit extends Places {
  /**
   * What a call needs besides, and before, for as long as its body is arriving: clients that stall hold a share of the
   * places and no more.
   */
  readonly uploads: Places;

  /** Its errors are a {@link GatewayError} 503 when there is no room in the queue, 504 when the deadline passes. */
  constructor(upstream: string, bounds: Bounds, clock: Clock) {
    const errors = errorsOf(upstream);
    super(bounds, errors, clock);
    this.uploads = new Places({ ...bounds, max: Math.max(1, Math.floor(bounds.max * UPLOADS)) }, errors, clock);
  }
}

function errorsOf(upstream: string): PlaceErrors {
  const full = `upstream "${upstream}" has too many calls running and waiting; try again in a second`;
  const late = `upstream "${upstream}" had no place for another call in time; try again later`;
  return {
    full: () => new GatewayError("queue_full", full, { retryAfter: 1 }),
    late: () => new GatewayError("queue_timeout", late),
  };
}
