import type { Clock } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { type Turn, WaitQueue } from "./queue.ts";

/** Gives a place back; calling it again does nothing. */
export type Leave = () => void;

/** Bounds how many calls to one registry run at once, so that a slow one takes nothing from the others. As many may wait. */
export class ConcurrencyLimit {
  private places: number;
  private readonly queue: WaitQueue;
  private taken = 0;

  constructor(places: number, clock: Clock) {
    this.places = places;
    this.queue = new WaitQueue(places, clock);
  }

  get running(): number {
    return this.taken;
  }

  get waiting(): number {
    return this.queue.size;
  }

  /** Takes a place where one is free. */
  tryEnter(): Leave | undefined {
    if (this.taken >= this.places) return undefined;
    this.taken += 1;
    return this.leave();
  }

  /**
   * Takes a place, at once where one is free.
   *
   * @throws GatewayError (in the promise) `queue_full` where as many wait as run, `queue_timeout` at the deadline, `client_gone`
   */
  enter(turn: Turn): Leave | Promise<Leave> {
    return this.tryEnter() ?? this.queue.wait(turn, { full, late }).then(() => this.leave());
  }

  /** Changes how many run at once, and how many wait. Calls beyond that end as they do. */
  resize(places: number): void {
    this.places = places;
    this.queue.most = places;
    while (this.taken < places && this.queue.admitNext()) this.taken += 1;
  }

  /** Gives the function that hands a place over to the next one who waits, or frees it. */
  private leave(): Leave {
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      if (this.taken > this.places || !this.queue.admitNext()) this.taken -= 1;
    };
  }
}

function full(): GatewayError {
  const text = "too many calls to this registry run and wait already; try again in a second";
  return new GatewayError("queue_full", text, { retryAfter: 1 });
}

function late(): GatewayError {
  return new GatewayError("queue_timeout", "no place for another call to this registry became free in time; try again");
}
