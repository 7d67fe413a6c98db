import type { AbortSignalLike } from "../../clock.ts";
import { ConnectionGone } from "./connection-failure.ts";

/** One at a time, in the order in which they came; who does not wait any more leaves no trace. */
export class Turns {
  private holder: object | undefined;
  private readonly waiting = new Map<object, () => void>();

  /** Rejects when `signal` aborts before it is its turn. Its turn ends with {@link leave}. */
  async enter(signal: AbortSignalLike): Promise<void> {
    if (this.holder === undefined) {
      this.holder = signal;
      return;
    }
    let begin: () => void;
    await new Promise<void>((resolve) => {
      begin = resolve;
      this.waiting.set(signal, resolve);
      signal.addEventListener("abort", resolve);
    });
    this.waiting.delete(signal);
    signal.removeEventListener("abort", begin!);
    if (!signal.aborted) return;
    this.leave(signal);
    throw new ConnectionGone();
  }

  /** `next` has the turn of `holder` from now on, if that has it. */
  follow(holder: object, next: object): void {
    if (this.holder === holder) this.holder = next;
  }

  leave(holder: object): void {
    if (this.holder !== holder) return;
    this.holder = undefined;
    for (const [next, begin] of this.waiting) {
      this.holder = next;
      return begin();
    }
  }
}
