import { type Clock, type Duration, sleep } from "../clock.ts";
import type { Pin } from "./pin.ts";

/** How long pins are gathered. */
const GATHER: Duration = 50;

/** Pins that are written, shared and used together: a reading of the sources may take hundreds at once. */
export class GatheredPins {
  private readonly clock: Clock;
  private readonly put: (batch: readonly Pin[]) => Promise<void>;
  private pins: Pin[] = [];
  private flushing: Promise<void> | undefined;

  /** @param put is called with one batch at a time */
  constructor(clock: Clock, put: (batch: readonly Pin[]) => Promise<void>) {
    this.clock = clock;
    this.put = put;
  }

  add(pin: Pin): void {
    this.pins.push(pin);
    this.flushing ??= this.flush().finally(() => {
      this.flushing = undefined;
    });
  }

  /** Resolves when all that was added has been put. */
  async settled(): Promise<void> {
    await this.flushing;
  }

  private async flush(): Promise<void> {
    while (this.pins.length > 0) {
      await sleep(GATHER, this.clock);
      await this.put(this.pins.splice(0));
    }
  }
}
