import type { Duration, Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { Operation } from "../spec/endpoints.ts";
import { decodeAnswer, isCoded, readAnswer } from "./answer.ts";
import type { Reading } from "./answer.ts";
import type { UpstreamCall } from "./call.ts";
import { Exchange } from "./exchange.ts";
import type { ExchangeListener, RawAnswer } from "./exchange.ts";
import { answerTimeout, connectTimeout, consequences } from "./failure.ts";
import type { Failure } from "./failure.ts";
import type { UpstreamNode } from "./node.ts";
import type { UpstreamParts } from "./parts.ts";

/** Why an attempt was made: `hedge` and `rescue` run beside an earlier one that is slow. */
export type AttemptKind = "first" | "retry" | "hedge" | "rescue";

interface AttemptOptions {
  readonly kind: AttemptKind;
  readonly node: UpstreamNode;
  readonly call: UpstreamCall;
  /** With credentials. */
  readonly fields: Fields;
  readonly isConditional: boolean;
  readonly deadline: Instant;
  /** Called once, unless the attempt is given up. */
  readonly onEnd: (attempt: Attempt, reading: Reading) => void;
}

/** One request of a call to one node: keeps the node's record and tells the observer how it went. */
export class Attempt implements ExchangeListener {
  readonly kind: AttemptKind;
  readonly node: UpstreamNode;
  readonly startedAt: Instant;
  readonly deadline: Instant;
  /** When it counts as much later than usual. */
  lateAt: Instant = Infinity;
  /** When another node is asked although this one may still answer. */
  rescueAt: Instant = Infinity;
  private readonly parts: UpstreamParts;
  private readonly options: AttemptOptions;
  private exchange: Exchange | undefined;
  private isOver = false;

  constructor(parts: UpstreamParts, options: AttemptOptions) {
    this.parts = parts;
    this.options = options;
    this.kind = options.kind;
    this.node = options.node;
    this.deadline = options.deadline;
    this.startedAt = parts.clock.now();
  }

  /** Sends the request. Nothing is called back from within. */
  send(): void {
    const { call, fields } = this.options;
    this.node.inFlight += 1;
    this.exchange = new Exchange(
      { method: call.method, path: this.node.basePath + call.path, fields, body: call.body },
      {
        connections: this.node.connections,
        clock: this.parts.clock,
        upstream: this.parts.config.name,
        maxBody: this.parts.limits.responseBody,
        listener: this,
      },
    );
  }

  get elapsed(): Duration {
    return this.parts.clock.now() - this.startedAt;
  }

  answered(raw: RawAnswer): void {
    if (isCoded(raw)) void this.decode(raw);
    else this.read(raw);
  }

  failed(failure: Failure): void {
    this.end({ answer: undefined, failure });
  }

  /** Its time is up: ends it as a failure. */
  expire(): void {
    const expired = this.exchange?.isSent === true ? answerTimeout : connectTimeout;
    this.exchange?.abort();
    this.end({ answer: undefined, failure: expired(this.parts.config.name) });
  }

  /** Nobody needs it any more. `isOutrun`: because another node was quicker. */
  cancel(isOutrun: boolean): void {
    if (this.isOver) return;
    this.isOver = true;
    this.exchange?.abort();
    this.node.inFlight -= 1;
    if (isOutrun) {
      // Without the lower bounds of those that were too slow, the tail would look shorter than it is.
      this.recordLatency();
    }
    this.observe("cancelled", undefined);
  }

  /**
   * Whether a timeout of this attempt says something about the node: not when a client with little patience ended it.
   */
  get isFairTrial(): boolean {
    return this.elapsed >= this.parts.config.attemptTimeout * 0.9;
  }

  private get operation(): Operation {
    return this.options.call.operation;
  }

  private async decode(raw: RawAnswer): Promise<void> {
    const decoded = await decodeAnswer(raw, this.context);
    if ("reason" in decoded) this.failed(decoded);
    else this.read(decoded);
  }

  private read(raw: RawAnswer): void {
    if (!this.isOver) this.end(readAnswer(raw, this.context));
  }

  private get context() {
    return {
      upstream: this.parts.config.name,
      node: this.node.index,
      maxBody: this.parts.limits.responseBody,
      isConditional: this.options.isConditional,
      hasCredentials: this.parts.credentials !== undefined,
    };
  }

  private end(reading: Reading): void {
    if (this.isOver) return;
    this.isOver = true;
    this.node.inFlight -= 1;
    const { answer, failure } = reading;
    this.keepRecord(failure, answer?.status);
    if (answer === undefined || failure !== undefined) this.observe("failure", failure);
    else this.observe(answer.status < 400 ? "success" : "error", undefined);
    this.options.onEnd(this, reading);
  }

  private keepRecord(failure: Failure | undefined, status: number | undefined): void {
    const { node } = this;
    if (failure === undefined || !consequences[failure.reason].unhealthy) {
      node.recordGood();
      // A refusal is quick: its latency would draw more calls to where they are refused.
      if (status !== undefined && status < 500 && status !== 429) this.recordLatency();
      return;
    }
    const isTimeout = failure.reason === "timeout" || failure.reason === "connect-timeout";
    if (isTimeout) {
      this.recordLatency();
      if (!this.isFairTrial) return;
    }
    const why = node.recordFailure();
    if (why === undefined) this.parts.nodes.suspect(node);
    else this.parts.nodes.eject(node, why);
  }

  private recordLatency(): void {
    this.node.recordLatency(this.elapsed);
    this.parts.latencies.record(this.operation, this.elapsed);
  }

  private observe(outcome: "success" | "error" | "failure" | "cancelled", failure: Failure | undefined): void {
    this.parts.observer.attempt({
      upstream: this.parts.config.name,
      operation: this.operation,
      outcome,
      reason: failure?.reason,
      status: this.exchange?.answeredStatus,
      seconds: this.elapsed / 1_000,
    });
  }
}
