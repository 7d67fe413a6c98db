import { type AnswerContent, readAnswerBody } from "../../bodies/answer.ts";
import { AT_ONCE, TooCostly } from "../../bodies/body-reader.ts";
import type { Duration, Instant } from "../../clock.ts";
import { toGatewayError } from "../../errors.ts";
import type { Fields } from "../../fields.ts";
import type { Operation } from "../../spec/endpoints.ts";
import { decodeAnswer, isCoded, readAnswer } from "../wire/answer.ts";
import type { Reading } from "../wire/answer.ts";
import { heedRefusal, isHopeless, isTimeout, recordOutcome } from "./attempt-outcome.ts";
import type { UpstreamCall } from "../call.ts";
import { isOwnRefusal } from "../credentials/credentials.ts";
import { Exchange } from "../wire/exchange.ts";
import type { ExchangeListener, RawAnswer } from "../wire/exchange.ts";
import { answerTimeout, connectTimeout, consequences, tooCostly } from "../failure.ts";
import type { Failure } from "../failure.ts";
import type { AttemptKind } from "../observer.ts";
import type { UpstreamNode } from "../node/node.ts";
import type { UpstreamParts } from "../parts.ts";
import { continueTrace } from "../wire/request-fields.ts";
import { digestOf } from "../recent-requests.ts";
import type { AttemptTrace } from "../observer.ts";

interface AttemptOptions {
  readonly kind: Exclude<AttemptKind, "stream">;
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
  private trace: AttemptTrace | undefined;
  private isLate = false;
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
    this.trace = call.trace?.attempt({
      upstream: this.parts.config.name,
      operation: call.operation,
      method: call.method,
      node: this.node.index,
      kind: this.kind,
    });
    this.exchange = new Exchange(
      {
        method: call.method,
        path: this.node.basePath + call.path,
        fields: this.trace === undefined ? fields : continueTrace(fields, this.trace),
        body: call.body,
      },
      {
        connections: this.node.connections,
        clock: this.parts.clock,
        upstream: this.parts.config.name,
        maxBody: this.parts.limits.responseBody,
        listener: this,
      },
    );
  }

  /** When something about it has to be decided next. */
  get due(): Instant {
    return Math.min(this.deadline, this.lateAt, this.rescueAt);
  }

  /** Notes that it is late, if it is. Returns whether it is time to ask another node as well. */
  noteLate(now: Instant): boolean {
    if (now >= this.lateAt) {
      this.lateAt = Infinity;
      this.isLate = true;
      this.suspect();
    }
    if (now < this.rescueAt) return false;
    this.rescueAt = Infinity;
    return true;
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
    const expired = this.exchange?.isConnected === true ? answerTimeout : connectTimeout;
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
      this.accuse();
      if (this.kind === "hedge") this.parts.observer.hedge(this.parts.config.name, "lost");
    }
    this.observe("cancelled", undefined);
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
    if (this.isOver) return;
    if (raw.body.length > AT_ONCE) void this.readElsewhere(raw);
    else this.conclude(raw, readAnswerBody(raw.body, this.operation));
  }

  /** Has a large body read in another thread; until then the attempt goes on, and so does its time. */
  private async readElsewhere(raw: RawAnswer): Promise<void> {
    const { name } = this.parts.config;
    try {
      const asker = { source: name, isWanted: () => !this.isOver };
      this.conclude(raw, await this.parts.bodies.read({ kind: "answer", operation: this.operation }, raw.body, asker));
    } catch (error) {
      this.failed(error instanceof TooCostly ? tooCostly(name) : { reason: "internal", error: toGatewayError(error) });
    }
  }

  private conclude(raw: RawAnswer, content: AnswerContent): void {
    if (!this.isOver) this.end(this.compareAdmin(readAnswer(raw, content, this.context)));
  }

  /** An info that names another admin is of another registry, and so is whatever else this node would answer. */
  private compareAdmin(reading: Reading): Reading {
    const { nodes } = this.parts;
    const admin =
      this.operation === "info" && reading.answer?.status === 200 ? reading.answer.content?.adminId : undefined;
    if (admin === undefined || admin === nodes.admin) return reading;
    try {
      nodes.hearFromCall(this.node, admin);
    } catch (error) {
      return { answer: undefined, failure: { reason: "wrong-admin", error: toGatewayError(error) } };
    }
    return reading;
  }

  private get context() {
    return {
      upstream: this.parts.config.name,
      node: this.node.index,
      maxBody: this.parts.limits.responseBody,
      isConditional: this.options.isConditional,
      isOwnRefusal: isOwnRefusal(this.parts.config, this.options.call.fields),
    };
  }

  private end(reading: Reading): void {
    if (this.isOver) return;
    this.isOver = true;
    this.node.inFlight -= 1;
    const { answer, failure } = reading;
    this.keepRecord(failure, answer?.status);
    if (failure !== undefined) {
      const { reason } = failure;
      heedRefusal(this.parts, this.node, { operation: this.operation, reason, fields: answer?.fields });
    }
    if (answer === undefined || failure !== undefined) this.observe("failure", failure);
    else this.observe(answer.status < 400 ? "success" : "error", undefined);
    this.options.onEnd(this, reading);
  }

  private keepRecord(failure: Failure | undefined, status: number | undefined): void {
    const isGood = failure === undefined || consequences[failure.reason].fault === "none";
    // A refusal is quick: its latency would draw more calls to where they are refused.
    const isAnswer = isGood && status !== undefined && status < 500 && status !== 429;
    if (isAnswer || (failure !== undefined && isTimeout(failure))) this.recordLatency();
    recordOutcome(this.parts, this.node, { failure, elapsed: this.elapsed, call: this.options.call });
  }

  /** It is late. When no other node answers either, it is not this one's fault. */
  private suspect(): void {
    const { nodes } = this.parts;
    if (!nodes.all.some((node) => node !== this.node && node.lastGoodAt > this.startedAt)) return;
    if (!isHopeless(this.parts, "timeout", this.options.call)) nodes.suspect(this.node);
  }

  /** Another node answered the same request sooner. */
  private accuse(): void {
    const { nodes } = this.parts;
    // It ran beside an earlier attempt that was slow too: the request may take as long anywhere.
    if (this.kind === "rescue") this.parts.hopeless.set(digestOf(this.options.call), true);
    if (this.kind === "rescue" || this.kind === "hedge") return;
    const why = this.isLate ? this.node.recordLate() : undefined;
    if (why !== undefined) nodes.eject(this.node, why);
    else if (this.node.recordOutrun()) nodes.suspect(this.node);
  }

  private recordLatency(): void {
    // A sole node is neither chosen nor hedged by its latency, but people want to see it.
    this.node.recordLatency(this.elapsed);
    if (this.parts.nodes.all.length > 1) this.parts.latencies.record(this.operation, this.elapsed);
  }

  private observe(outcome: "success" | "error" | "failure" | "cancelled", failure: Failure | undefined): void {
    const end = { outcome, reason: failure?.reason, status: this.exchange?.answeredStatus };
    this.parts.observer.attempt({
      upstream: this.parts.config.name,
      operation: this.operation,
      kind: this.kind,
      node: this.node.index,
      fields: this.options.call.fields,
      seconds: this.elapsed / 1_000,
      ...end,
    });
    this.trace?.end(end);
  }
}
