import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import type { CancelTimer, Clock, Duration } from "../clock.ts";
import { GatewayError } from "../errors.ts";

/** How an event loop did since it was last asked. */
export interface LoopLoad {
  /** How late it was, at 99 of 100 looks at most so late. */
  readonly delay: Duration;
  /** The share of time, from 0 to 1, in which it had something to do. */
  readonly utilization: number;
}

/** Between two looks at the loop. */
const LOOK_EVERY: Duration = 500;

/**
 * A loop this late adds as much to every step of a request, and a miss has about five: seconds of waiting that no
 * registry caused. A thousand requests of a tenth of a millisecond at once make it late by a tenth of a second, and by
 * more where clients share its core: slow, but it gets through.
 */
const TOO_LATE: Duration = 500;

/** A loop that is late and not busy is kept waiting by others on the machine: to refuse work would win nothing. */
const BUSY = 0.9;

/** So many looks in a row, two seconds: one pause of the garbage collector or of the machine is no overload. */
const LOOKS_TO_SHED = 4;

/** It ends where half as much is left, for two seconds: what was shed comes back at once. */
const RECOVERED: Duration = 250;
const LOOKS_TO_RECOVER = 4;

const UNMEASURED: LoopLoad = { delay: 0, utilization: 0 };

/** Seconds after which clients may try again: longer than it takes to recover. */
const RETRY_AFTER = 3;

export interface OverloadOptions {
  readonly clock: Clock;
  /** Where the loop is not measured, nothing is ever refused. */
  readonly load?: (() => LoopLoad) | undefined;
  /** Called when shedding begins or ends, and how late the loop was then. */
  readonly onChange: (isShedding: boolean, delay: Duration) => void;
  /** Called for everything that is refused. */
  readonly onShed: (kind: ShedKind) => void;
}

/** What is refused: metadata that is not cached, or a call that is passed on. */
export type ShedKind = "metadata" | "call";

/**
 * Whether this process has more to do than it can. While it has, work that only this process can end is refused, so
 * that what costs next to nothing, memory hits and probes, goes on as if nothing were.
 */
export class Overload {
  private readonly options: OverloadOptions;
  private cancel: CancelTimer = () => {};
  private late = 0;
  private calm = 0;
  private shedding = false;
  private latest = UNMEASURED;

  constructor(options: OverloadOptions) {
    this.options = options;
  }

  get isShedding(): boolean {
    return this.shedding;
  }

  /** How late the loop was when it was last looked at. */
  get delay(): Duration {
    return this.latest.delay;
  }

  /** How the loop did when it was last looked at. */
  get load(): LoopLoad {
    return this.latest;
  }

  start(): void {
    this.cancel = this.options.clock.after(LOOK_EVERY, () => {
      this.look();
      this.start();
    });
  }

  stop(): void {
    this.cancel();
  }

  readonly refuseMetadata = (): void => this.refuseWork("metadata");
  readonly refuseCall = (): void => this.refuseWork("call");

  /** @throws GatewayError 503 while this process has too much to do. */
  private refuseWork(kind: ShedKind): void {
    if (!this.shedding) return;
    this.options.onShed(kind);
    throw new GatewayError("overloaded", `the gateway has too much to do just now; try again in ${RETRY_AFTER} s`, {
      retryAfter: RETRY_AFTER,
    });
  }

  private look(): void {
    this.latest = this.options.load?.() ?? UNMEASURED;
    const { delay, utilization } = this.latest;
    this.late = delay > TOO_LATE && utilization > BUSY ? this.late + 1 : 0;
    this.calm = delay < RECOVERED ? this.calm + 1 : 0;
    const isShedding = this.shedding ? this.calm < LOOKS_TO_RECOVER : this.late >= LOOKS_TO_SHED;
    if (isShedding === this.shedding) return;
    this.shedding = isShedding;
    this.options.onChange(isShedding, delay);
  }
}

/** Milliseconds between two samples of the loop. */
const RESOLUTION = 10;

/** Measures this process's event loop from now on; each call covers the time since the one before. */
export function measureLoop(): () => LoopLoad {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION });
  histogram.enable();
  let before = performance.eventLoopUtilization();
  return () => {
    // It measures from sample to sample, in nanoseconds: a loop that is never late shows the resolution.
    const delay = Math.max(0, histogram.percentile(99) / 1e6 - RESOLUTION);
    histogram.reset();
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    return { delay, utilization };
  };
}
