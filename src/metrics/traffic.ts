import type { Metrics } from "../metrics.ts";
import type { CachedOperation } from "../spec/endpoints.ts";
import { CACHED_OPERATION, type OperationLabel, type OutcomeLabel, statusClassOf, statusLabelOf } from "./labels.ts";
import type { Tally } from "./tally.ts";

/** A request that has its answer. */
export interface FinishedRequest {
  readonly operation: OperationLabel;
  /** The alias; `none` where no upstream was found. */
  readonly upstream: string;
  readonly status: number;
  readonly outcome: OutcomeLabel;
  /** Of the answer's body. */
  readonly bytes: number;
  /** Of an answer that came through the cache, in seconds. */
  readonly age: number | undefined;
  readonly seconds: number;
}

/** A fresh memory hit. */
export type FinishedHit = Omit<FinishedRequest, "operation" | "upstream" | "outcome"> & { readonly age: number };

/** Counts hits of one endpoint of one upstream. */
export type RecordHit = (hit: FinishedHit) => void;

/** Counts what clients asked for and got. */
export class Traffic {
  private readonly metrics: Metrics;
  private readonly hits = new Map<string, RecordHit>();
  private inFlight = 0;
  private open = 0;

  constructor(metrics: Metrics) {
    this.metrics = metrics;
  }

  /** Requests begun and not finished, memory hits apart. */
  get requestsInFlight(): number {
    return this.inFlight;
  }

  /** Connections of clients that are open. */
  get connections(): number {
    return this.open;
  }

  connectionOpened(): void {
    this.open += 1;
  }

  connectionClosed(): void {
    this.open -= 1;
  }

  /** A connection was refused: too many are open. */
  connectionDropped(): void {
    this.metrics.connectionsDropped.inc();
  }

  /** What came was no HTTP request, and was answered with this status. */
  refusedUnparsed(status: number): void {
    this.metrics.requests.inc({ operation: "none", upstream: "none", status: statusClassOf(status) });
    this.metrics.responses.inc({ status: statusLabelOf(status) });
  }

  begin(): void {
    this.inFlight += 1;
  }

  /** Counts a request that was begun. */
  finish(request: FinishedRequest): void {
    const { metrics } = this;
    const { operation, upstream, status, outcome, bytes, age } = request;
    this.inFlight -= 1;
    metrics.requests.inc({ operation, upstream, status: statusClassOf(status) });
    metrics.responses.inc({ status: statusLabelOf(status) });
    metrics.requestDuration.observe({ operation, outcome }, request.seconds);
    if (!isCached(operation) || outcome === "refused") return;
    metrics.cacheAnswers.inc({ upstream, operation, outcome });
    metrics.cacheAnswerBytes.inc({ operation, outcome }, bytes);
    if (age !== undefined) metrics.servedAge.observe({ operation }, age);
  }

  /** What counts the hits of one endpoint of one upstream; calling it costs next to nothing. */
  hitsOf(operation: CachedOperation, upstream: string): RecordHit {
    const name = `${operation} ${upstream}`;
    const known = this.hits.get(name);
    if (known !== undefined) return known;
    const recordHit = this.createRecordHit(operation, upstream);
    this.hits.set(name, recordHit);
    return recordHit;
  }

  /** Forgets what upstreams were called before a reload: their series are gone. */
  forgetHits(): void {
    this.hits.clear();
  }

  private createRecordHit(operation: CachedOperation, upstream: string): RecordHit {
    const { metrics } = this;
    const outcome = "hit";
    const answers = metrics.cacheAnswers.tally({ upstream, operation, outcome });
    const answerBytes = metrics.cacheAnswerBytes.tally({ operation, outcome });
    const durations = metrics.requestDuration.tally({ operation, outcome });
    const ages = metrics.servedAge.tally({ operation });
    const byStatus = new Map<number, readonly [requests: Tally, responses: Tally]>();
    const talliesOf = (status: number) => {
      const tallies = [
        metrics.requests.tally({ operation, upstream, status: statusClassOf(status) }),
        metrics.responses.tally({ status: statusLabelOf(status) }),
      ] as const;
      byStatus.set(status, tallies);
      return tallies;
    };
    return function recordHit({ status, bytes, age, seconds }) {
      const [requests, responses] = byStatus.get(status) ?? talliesOf(status);
      requests.add(1);
      responses.add(1);
      answers.add(1);
      answerBytes.add(bytes);
      durations.observe(seconds);
      ages.observe(age);
    };
  }
}

function isCached(operation: OperationLabel): operation is CachedOperation {
  return (CACHED_OPERATION as readonly string[]).includes(operation);
}
