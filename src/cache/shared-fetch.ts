import { Abort, type AbortSignalLike, type Clock, type Duration, type Instant, withDeadline } from "../clock.ts";
import { GatewayError } from "../errors.ts";

/** Until when a request waits, and how its client says that it left. */
export interface WaitLimits {
  readonly deadline: Instant;
  readonly signal?: AbortSignalLike | undefined;
}

/** Waits for `promise` within the limits of one request. @throws GatewayError 504 when the deadline passes, 499 */
export function waitFor<T>(promise: Promise<T>, clock: Clock, { deadline, signal }: WaitLimits): Promise<T> {
  return withDeadline(promise, { deadline, signal, late: timedOut }, clock);
}

function timedOut(): GatewayError {
  return new GatewayError("upstream_timeout", "the registry did not answer in time; try again in a moment");
}

export interface SharedFetchOptions<T> {
  readonly clock: Clock;
  /** How long the fetch may take, whatever the deadlines of the requests that wait. */
  readonly timeout: Duration;
  /** Goes on when no request waits. */
  readonly background: boolean;
  /** The fetch; it ends when the signal is aborted. */
  readonly run: (signal: AbortSignalLike) => Promise<T>;
  /** Called once, and no request should join any more: the fetch is done, failed, or was given up. */
  readonly ended: (how: FetchEnd) => void;
}

export type FetchEnd = "done" | "failed" | "abandoned";

/** A fetch that several requests wait for, each with its own deadline. It belongs to none of them. */
export class SharedFetch<T> {
  private readonly clock: Clock;
  private readonly background: boolean;
  private readonly controller = new Abort();
  private readonly ended: (how: FetchEnd) => void;
  private readonly result: Promise<T>;
  private waiting = 0;
  private isOver = false;

  constructor({ clock, timeout, background, run, ended }: SharedFetchOptions<T>) {
    this.clock = clock;
    this.background = background;
    this.ended = ended;
    this.result = this.run(timeout, run);
    // Each request that waits learns of a failure; that none does is no error.
    this.result.catch(() => undefined);
  }

  /** Resolves when it is over, however it ended: whoever waits for that alone does not keep it going. */
  get whenOver(): Promise<void> {
    return this.result.then(
      () => undefined,
      () => undefined,
    );
  }

  /** What the fetch yields, or its failure; a 504 when the deadline passes first. */
  async wait(limits: WaitLimits): Promise<T> {
    this.waiting += 1;
    try {
      return await waitFor(this.result, this.clock, limits);
    } finally {
      this.waiting -= 1;
      if (this.waiting === 0 && !this.background) this.abandon();
    }
  }

  /** Ends the fetch, even if requests wait. */
  abandon(): void {
    this.end("abandoned");
  }

  private async run(timeout: Duration, run: (signal: AbortSignalLike) => Promise<T>): Promise<T> {
    const signal = this.controller;
    try {
      const value = await waitFor(run(signal), this.clock, { deadline: this.clock.now() + timeout, signal });
      this.end("done");
      return value;
    } catch (error) {
      this.end("failed");
      throw error;
    }
  }

  private end(how: FetchEnd): void {
    if (this.isOver) return;
    this.isOver = true;
    this.ended(how);
    if (how !== "done") this.controller.abort();
  }
}
