import type { IncomingHttpHeaders } from "node:http";
import type { Instant } from "../clock.ts";
import type { Operation } from "../spec/operations.ts";

/** One request as the registry received it. */
export interface Call {
  readonly operation: Operation;
  readonly method: string;
  /** Path and query exactly as received. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** Name, value, name, value, … exactly as received. */
  readonly rawHeaders: readonly string[];
  readonly at: Instant;
  /** Empty until the whole body has arrived. */
  body: Buffer;
  /** `aborted`: the connection went away before the whole answer was handed to it. */
  outcome: "open" | "answered" | "aborted";
}

/** How many of the last calls are kept. */
const MAX_RECENT = 1_000;

/** What a registry was asked, counted from when a request's head has arrived. */
export class CallLog {
  private readonly counts = new Map<Operation, number>();
  private readonly kept: Call[] = [];
  /** All calls since the start or the last `clear`. */
  total = 0;
  /** Calls that are neither answered nor aborted. */
  open = 0;
  /** Calls whose client went away, or whose connection a fault broke. */
  aborted = 0;

  /** The last calls, oldest first; at most 1000. */
  get recent(): readonly Call[] {
    return this.kept;
  }

  get last(): Call | undefined {
    return this.kept.at(-1);
  }

  count(operation: Operation): number {
    return this.counts.get(operation) ?? 0;
  }

  /** Forgets what was; calls that are open stay counted as open. */
  clear(): void {
    this.counts.clear();
    this.kept.length = 0;
    this.total = 0;
    this.aborted = 0;
  }

  begin(call: Call): void {
    this.total += 1;
    this.counts.set(call.operation, this.count(call.operation) + 1);
    this.open += 1;
    this.kept.push(call);
    if (this.kept.length > MAX_RECENT) this.kept.shift();
  }

  end(call: Call, outcome: "answered" | "aborted"): void {
    if (call.outcome !== "open") return;
    call.outcome = outcome;
    this.open -= 1;
    if (outcome === "aborted") this.aborted += 1;
  }
}
