import type { RedisObserver } from "./observer.ts";

/** Whether requests ask Redis, for metrics, the log and those who wait for it. */
export class Usability {
  private readonly observer: Pick<RedisObserver, "stateChanged">;
  private readonly changed: (isUp: boolean) => void;
  private isUp = false;
  private isClosed = false;
  private next = Promise.withResolvers<void>();

  constructor(observer: Pick<RedisObserver, "stateChanged">, changed: (isUp: boolean) => void) {
    this.observer = observer;
    this.changed = changed;
  }

  /** Resolves when it is up, or closed. */
  get up(): Promise<void> {
    return this.next.promise;
  }

  /** @param why it is not, where that is known */
  note(isUp: boolean, why: string | undefined): void {
    if (isUp === this.isUp || this.isClosed) return;
    this.isUp = isUp;
    this.observer.stateChanged(isUp ? "up" : "away", isUp ? "connected and up to date" : (why ?? "too slow"));
    this.changed(isUp);
    if (isUp) this.next.resolve();
    else this.next = Promise.withResolvers();
  }

  close(): void {
    this.isClosed = true;
    this.next.resolve();
  }
}
