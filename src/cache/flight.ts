import type { Clock, Duration, Instant } from "../clock.ts";
import { withDeadline } from "../deadline.ts";
import { GatewayError } from "../errors.ts";

/** Until when somebody waits, and how they say that they no longer do. */
export interface Patience {
  readonly deadline: Instant;
  readonly signal?: AbortSignal | undefined;
}

export interface FlightOptions<T> {
  readonly clock: Clock;
  /** How long the work may take, whoever waits. */
  readonly timeout: Duration;
  /** Goes on when nobody waits. */
  readonly background: boolean;
  /** The work; it ends when the signal is aborted. */
  readonly run: (signal: AbortSignal) => Promise<T>;
  /** Called once, and nobody should join any more: the work is done, failed, or was given up. */
  readonly ended: (how: FlightEnd) => void;
}

export type FlightEnd = "landed" | "failed" | "abandoned";

/** Work that several requests wait for, each with its own patience. It owns what it does, no client does. */
export class Flight<T> {
  private readonly clock: Clock;
  private readonly background: boolean;
  private readonly controller = new AbortController();
  private readonly ended: (how: FlightEnd) => void;
  private readonly landing: Promise<T>;
  private waiting = 0;
  private isOver = false;

  constructor({ clock, timeout, background, run, ended }: FlightOptions<T>) {
    this.clock = clock;
    this.background = background;
    this.ended = ended;
    this.landing = this.land(timeout, run);
    // Whoever waits hears of a failure; that nobody does is no error.
    this.landing.catch(() => undefined);
  }

  /** What the work yields, or its failure; a 504 when the deadline passes first. */
  async wait(patience: Patience): Promise<T> {
    this.waiting += 1;
    try {
      return await waitFor(this.landing, this.clock, patience);
    } finally {
      this.waiting -= 1;
      if (this.waiting === 0 && !this.background) this.abandon();
    }
  }

  /** Ends the work, whoever waits. */
  abandon(): void {
    this.end("abandoned");
  }

  private async land(timeout: Duration, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal } = this.controller;
    try {
      const value = await waitFor(run(signal), this.clock, { deadline: this.clock.now() + timeout, signal });
      this.end("landed");
      return value;
    } catch (error) {
      this.end("failed");
      throw error;
    }
  }

  private end(how: FlightEnd): void {
    if (this.isOver) return;
    this.isOver = true;
    this.ended(how);
    if (how !== "landed") this.controller.abort();
  }
}

/** Waits for `promise` as {@link withDeadline} does; when the deadline passes, the client is told 504. */
export function waitFor<T>(promise: Promise<T>, clock: Clock, { deadline, signal }: Patience): Promise<T> {
  return withDeadline(promise, { deadline, signal, late: timedOut }, clock);
}

function timedOut(): GatewayError {
  return new GatewayError("upstream_timeout", "the registry did not answer in time; try again in a moment");
}
