import type { RequestRecord } from "../requests/record.ts";

/** Upper bounds of the buckets of {@link Latency}, in seconds; what is above the last has a bucket of its own. */
export const LATENCY_BOUNDS: readonly number[] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Counts by duration: one for each of {@link LATENCY_BOUNDS}, and one for what took longer. Not cumulative. */
export type Latency = readonly number[];

/** Totals of what the gateway did for clients since it began. */
export interface Totals {
  readonly requests: number;
  /** Answered from the cache, fresh or stale. */
  readonly hits: number;
  /** Requests for what may be cached. */
  readonly cacheable: number;
  /** Answered with a 5xx. */
  readonly failed: number;
  /** Answered 429: by a limit, the client's or yours, or while a registry wants a pause. */
  readonly limited: number;
  readonly latency: Latency;
}

/** Totals of what was asked of a registry since the gateway began. */
export interface UpstreamTotals {
  /** Requests to its nodes, infos included. */
  readonly attempts: number;
  /** Attempts that brought no answer that could be used. */
  readonly failed: number;
  readonly latency: Latency;
}

/** Outcomes of attempts that are answers: a 404 is one, too. */
const ANSWERED: ReadonlySet<string> = new Set(["success", "not_found"]);

type Counts<T> = { -readonly [Key in keyof T]: T[Key] extends number ? number : number[] };

/** Counts for those who look at one replica, without Prometheus: two readings give rates. */
export class TotalsCounter {
  private readonly requests: Counts<Totals> = {
    requests: 0,
    hits: 0,
    cacheable: 0,
    failed: 0,
    limited: 0,
    latency: noLatency(),
  };
  private readonly upstreams = new Map<string, Counts<UpstreamTotals>>();

  requestEnded({ status, outcome, seconds }: RequestRecord): void {
    const counts = this.requests;
    counts.requests += 1;
    if (outcome !== undefined) counts.cacheable += 1;
    if (outcome === "hit" || outcome === "stale") counts.hits += 1;
    if (status >= 500) counts.failed += 1;
    if (status === 429) counts.limited += 1;
    addTo(counts.latency, seconds);
  }

  attemptEnded(upstream: string, outcome: string, seconds: number): void {
    let counts = this.upstreams.get(upstream);
    if (counts === undefined) {
      this.upstreams.set(upstream, (counts = { attempts: 0, failed: 0, latency: noLatency() }));
    }
    counts.attempts += 1;
    if (!ANSWERED.has(outcome)) counts.failed += 1;
    addTo(counts.latency, seconds);
  }

  get all(): Totals {
    return { ...this.requests, latency: [...this.requests.latency] };
  }

  of(upstream: string): UpstreamTotals {
    const counts = this.upstreams.get(upstream);
    return counts === undefined
      ? { attempts: 0, failed: 0, latency: noLatency() }
      : { ...counts, latency: [...counts.latency] };
  }
}

function noLatency(): number[] {
  return Array.from({ length: LATENCY_BOUNDS.length + 1 }, () => 0);
}

function addTo(latency: number[], seconds: number): void {
  let bucket = 0;
  while (bucket < LATENCY_BOUNDS.length && seconds > LATENCY_BOUNDS[bucket]!) bucket += 1;
  latency[bucket] = latency[bucket]! + 1;
}
