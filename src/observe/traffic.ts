import type { ErrorCode, GatewayError } from "../errors.ts";
import type { ClosingReason } from "../connections/connections.ts";
import type { HandshakeFailure } from "../connections/tls.ts";
import { isCached } from "../spec/operations.ts";
import type { Metrics } from "./metrics.ts";
import type { CounterChild, HistogramChild } from "./metrics/batches.ts";
import { type OperationLabel, type OutcomeLabel, type StatusClass, statusClassOf } from "./metrics/labels.ts";

/** What a request was about and what became of it. */
export interface TrafficKind {
  readonly operation: OperationLabel;
  /** The alias; `none` where no upstream was found. */
  readonly upstream: string;
  readonly outcome: OutcomeLabel;
}

/** A request that has its answer. */
export interface FinishedRequest {
  readonly status: number;
  /** Of an answer that came through the cache, in seconds. */
  readonly age: number | undefined;
  /** Of one that stood in for a failure: how much of the time for which it may was over. */
  readonly windowUsed?: number | undefined;
  readonly seconds: number;
  /** Where its trace is kept: its latency names it. */
  readonly traceId?: string | undefined;
}

/** Counts requests of one kind. */
export type RecordRequest = (request: FinishedRequest) => void;

/** Counts what clients asked for and got. */
export class Traffic {
  private readonly metrics: Metrics;
  /** By upstream, outcome and operation: as many as there are kinds, of the upstreams that are configured. */
  private readonly recorders = new Map<string, Map<OutcomeLabel, Map<OperationLabel, RecordRequest>>>();
  /** By histogram and labels. */
  private readonly histograms = new Map<string, HistogramChild>();
  private inFlight = 0;
  private open = 0;
  private finished = 0;

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

  /** Requests answered since the start. */
  get answered(): number {
    return this.finished;
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

  /** A connection was closed that its client would have kept. */
  connectionCutOff(reason: ClosingReason): void {
    this.metrics.connectionsClosed.inc({ reason });
  }

  /** No TLS came of a connection. */
  handshakeFailed(reason: HandshakeFailure): void {
    this.metrics.handshakeFailures.inc({ reason });
  }

  /** A request was answered with an error of the gateway's own, or its client went away. */
  failed(code: ErrorCode): void {
    this.metrics.errors.inc({ code });
  }

  /** What came was no HTTP request, and was answered with this error. */
  refusedUnparsed({ code, status }: GatewayError): void {
    this.failed(code);
    this.finished += 1;
    this.metrics.requests.inc({ operation: "none", upstream: "none", status: statusClassOf(status) });
  }

  begin(): void {
    this.inFlight += 1;
  }

  /** Counts a request that was begun. */
  finish(kind: TrafficKind, request: FinishedRequest): void {
    this.inFlight -= 1;
    this.recorder(kind)(request);
  }

  /** What counts requests of one kind: labels are looked up once, and calling it costs next to nothing. */
  recorder(kind: TrafficKind): RecordRequest {
    const { operation, upstream, outcome } = kind;
    let ofUpstream = this.recorders.get(upstream);
    if (ofUpstream === undefined) this.recorders.set(upstream, (ofUpstream = new Map()));
    let ofOutcome = ofUpstream.get(outcome);
    if (ofOutcome === undefined) ofUpstream.set(outcome, (ofOutcome = new Map()));
    let recordRequest = ofOutcome.get(operation);
    if (recordRequest === undefined) ofOutcome.set(operation, (recordRequest = this.createRecorder(kind)));
    return recordRequest;
  }

  /** Forgets what upstreams were called before a reload: their series are gone. */
  forgetRecorders(): void {
    this.recorders.clear();
  }

  private createRecorder({ operation, upstream, outcome }: TrafficKind): RecordRequest {
    const { metrics } = this;
    const { batches } = metrics;
    const labels = { operation, outcome };
    const durations = this.batched(`durations ${operation} ${outcome}`, () => metrics.requestDuration.labels(labels));
    const recordCached = this.createCacheRecorder({ operation, upstream, outcome });
    const byClass = new Map<StatusClass, CounterChild>();
    const counterOf = (status: StatusClass) => {
      const counter = batches.counter(metrics.requests.labels({ operation, upstream, status }));
      byClass.set(status, counter);
      return counter;
    };
    return (request) => {
      const { seconds: value, traceId } = request;
      this.finished += 1;
      const status = statusClassOf(request.status);
      (byClass.get(status) ?? counterOf(status)).inc();
      if (traceId === undefined) durations.observe(value);
      else metrics.requestDuration.observe({ labels, value, exemplarLabels: { trace_id: traceId } });
      recordCached?.(request);
    };
  }

  private batched(key: string, create: () => HistogramChild): HistogramChild {
    let batched = this.histograms.get(key);
    if (batched === undefined) this.histograms.set(key, (batched = this.metrics.batches.histogram(create())));
    return batched;
  }

  /** What else is counted of answers that came through the cache. */
  private createCacheRecorder({ operation, upstream, outcome }: TrafficKind): RecordRequest | undefined {
    if (!isCached(operation) || outcome === "refused") return undefined;
    const { metrics } = this;
    const answers = metrics.batches.counter(metrics.cacheAnswers.labels({ upstream, operation, outcome }));
    const ages = this.batched(`ages ${operation}`, () => metrics.servedAge.labels({ operation }));
    return function recordCached({ age, windowUsed }) {
      answers.inc();
      if (age !== undefined) ages.observe(age);
      if (windowUsed !== undefined) metrics.windowUsed.labels({ operation }).observe(windowUsed);
    };
  }
}
