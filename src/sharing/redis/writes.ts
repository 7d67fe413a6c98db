import { type Clock, type Duration, withReply } from "../../clock.ts";

/** What may wait to be written. Beyond it Redis is not keeping up, and what comes is not worth the memory. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;

/** One value to write. */
export interface Write {
  /** Roughly what it holds in memory until it is written. */
  readonly bytes: number;
  /** Sends it, and settles within a bounded time. Called off the path of the request that caused it. */
  send(): Promise<unknown>;
}

/** Writes under way, off every request's path and within a bound. */
export class Writes {
  private readonly clock: Clock;
  private readonly underWay = new Set<Promise<void>>();
  private queue: Write[] = [];
  private waitingBytes = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Takes over a write; false when too much waits already. */
  add(write: Write): boolean {
    if (this.waitingBytes + write.bytes > MAX_WAITING_BYTES) return false;
    this.waitingBytes += write.bytes;
    if (this.queue.length === 0) setImmediate(() => this.flush());
    this.queue.push(write);
    return true;
  }

  /** Resolves when all that was added so far is in Redis or has failed, at the latest after `timeout`. */
  async settled(timeout: Duration): Promise<void> {
    this.flush();
    if (this.underWay.size === 0) return;
    await withReply(Promise.all(this.underWay), timeout, this.clock).catch(() => {});
  }

  private flush(): void {
    const queue = this.queue;
    this.queue = [];
    for (const write of queue) {
      const sent: Promise<void> = write
        .send()
        .catch(() => {})
        .then(() => {
          this.underWay.delete(sent);
          this.waitingBytes -= write.bytes;
        });
      this.underWay.add(sent);
    }
  }
}
