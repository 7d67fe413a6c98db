/** What the load generator is to send, and what it must get. */
export interface LoadPlan {
  readonly port: number;
  /** Connections, each with one request at a time. */
  readonly connections: number;
  /** Requests in all. */
  readonly count: number;
  /** The whole request as text; `{n}` is replaced by a number that grows from `from`. */
  readonly request: string;
  readonly from?: number;
  /**
   * `each`: the number grows with every request, and starts again after `period`. `wave`: all connections send the same
   * request, wait for all answers, then send the next.
   */
  readonly numbering?: "each" | "wave";
  readonly period?: number;
  /** Milliseconds, on average, between an answer and the next request of its connection; by default it follows at once. */
  readonly pause?: number | undefined;
  readonly expected: Expected;
}

/** What every answer must be, or the run fails. */
export interface Expected {
  readonly status: number;
  /** Bytes of the body that comes; 0 with HEAD and 304; undefined where it is as long as its head says. */
  readonly bodyLength: number | undefined;
  /** Text that heads are to hold; how many do is counted. */
  readonly headHolds?: string;
}

/** What the generator measured. */
export interface LoadResult {
  /** Milliseconds from first request to last answer. */
  readonly elapsed: number;
  /** Milliseconds per request. */
  readonly p50: number;
  readonly p99: number;
  /** Share of answers whose head holds the text that was expected. */
  readonly holding: number;
}

/** Messages to the generator: first `open`, answered when all connections are there, then `run`. */
export type LoadCommand = { readonly do: "open"; readonly plan: LoadPlan } | { readonly do: "run" };

export type LoadReply = { readonly error: string } | { readonly opened: true } | { readonly result: LoadResult };
