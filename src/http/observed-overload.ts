import type { Clock } from "../clock.ts";
import type { Logger } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import { type LoopLoad, Overload } from "./overload.ts";

export interface ObservedOverloadOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "shedRequests">;
  /** How the event loop does; where it is not measured, nothing is ever shed. */
  readonly loop?: (() => LoopLoad) | undefined;
}

const UNMEASURED: LoopLoad = { delay: 0, utilization: 0 };

/** An overload that logs when it begins and ends, and counts what is refused. */
export function createOverload({ clock, log, metrics, loop }: ObservedOverloadOptions): Overload {
  return new Overload({
    clock,
    load: loop ?? (() => UNMEASURED),
    onChange(isShedding, delay) {
      const line = { delayMs: Math.round(delay) };
      if (isShedding) log.warn(line, "too much to do: misses and calls are refused");
      else log.info(line, "misses and calls are answered again");
    },
    onShed: (kind) => metrics.shedRequests.inc({ kind }),
  });
}
