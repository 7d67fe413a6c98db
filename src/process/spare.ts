import type { CancelTimer, Clock } from "../clock.ts";
import type { Logger } from "../log.ts";
import { BackOff } from "./back-off.ts";
import type { Worker } from "./worker-process.ts";

export interface SpareOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly fork: () => Worker;
}

/**
 * Keeps one worker that has loaded its modules, which is most of what it takes to begin, and waits to be told to. Until
 * then it has no configuration, no connection and no part in anything.
 */
export class Spare {
  private readonly options: SpareOptions;
  private readonly backOff = new BackOff();
  private waiting: Worker | undefined;
  private cancelPause: CancelTimer | undefined;

  constructor(options: SpareOptions) {
    this.options = options;
  }

  /** Undefined while there is none. */
  get worker(): Worker | undefined {
    return this.waiting;
  }

  /** Starts one, unless there is one or will be after a pause. */
  prepare(): void {
    if (this.waiting !== undefined || this.cancelPause !== undefined) return;
    const worker = this.options.fork();
    this.waiting = worker;
    void worker.ended.then((why) => {
      if (this.waiting === worker) this.replace(worker, why);
    });
  }

  /** The one that is there is the caller's from now on, though it may still be loading. */
  take(): Worker | undefined {
    const worker = this.waiting;
    this.waiting = undefined;
    return worker;
  }

  /** Ends it, and starts none any more. */
  stop(): void {
    this.cancelPause?.();
    this.take()?.process.kill();
  }

  private replace(worker: Worker, why: string): void {
    const { clock, log } = this.options;
    log.error({ reason: `a spare worker ended: ${why}` }, "worker cannot begin");
    this.waiting = undefined;
    this.cancelPause = clock.after(this.backOff.pauseAfter(worker.hasLoaded ? worker.age : 0), () => {
      this.cancelPause = undefined;
      this.prepare();
    });
  }
}
