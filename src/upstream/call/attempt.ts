import type { Readable } from "node:stream";
import type { Duration, Instant } from "../../clock.ts";
import type { Fields } from "../../fields.ts";
import { isOfVersion2 } from "../../spec/endpoints.ts";
import type { StreamedCall } from "../call.ts";
import { answerTimeout, connectTimeout } from "../failure.ts";
import type { Failure } from "../failure.ts";
import type { UpstreamNode } from "../nodes/node.ts";
import type { AttemptKind, AttemptOutcome, AttemptTrace } from "../observer.ts";
import type { UpstreamParts } from "../parts.ts";
import { isOwnRefusal, type Reading } from "../wire/answer.ts";
import { isConditional, tracedFields, WireRequest } from "../wire/request.ts";
import type { AnswerListener } from "../wire/request.ts";
import type { Upload } from "../../bodies/upload.ts";
import { accuse, heedRefusal, isHopeless, recordLatency, recordOutcome } from "./attempt-outcome.ts";
import { ALONE } from "./hedging.ts";
import type { Schedule } from "./hedging.ts";

/** Takes the answer of an attempt: keeps it until it is complete, or passes it on as it comes. */
export interface AnswerReader extends AnswerListener {
  /** The node may have more, and whoever reads the answer is behind. */
  readonly isHeldUp: boolean;
  /** Nothing more is wanted of the answer; what was passed on of it breaks with `reason`. */
  abort(reason: Error | undefined): void;
}

/** The call that an attempt is of. */
export interface AttemptOwner<Answer> {
  readonly call: StreamedCall;
  readonly mode: { readonly createReader: (attempt: Attempt<Answer>) => AnswerReader };
  /** The head of an answer that is streamed has come; `busy`: it says that the registry is. */
  attemptAnswering(attempt: Attempt<Answer>, busy: Failure | undefined): void;
  /** The client can have this answer, of which more may come. */
  answer(answer: Answer): void;
  /** It is over. Not called when it was cancelled. */
  attemptEnded(attempt: Attempt<Answer>, reading: Reading<Answer>): void;
  /** Ends the call with an error that says nothing about the upstream. */
  fail(error: unknown): void;
}

interface AttemptOptions {
  readonly kind: AttemptKind;
  /** It runs beside an earlier one. */
  readonly isBeside: boolean;
  readonly node: UpstreamNode;
  readonly startedAt: Instant;
  readonly deadline: Instant;
  /** With credentials. */
  readonly fields: Fields;
  readonly body: Readable | Buffer | undefined;
  /** The body, where it is still on its way from the client. */
  readonly upload: Upload | undefined;
  /** The answer to an earlier attempt was to another request: this one's is surely to none. */
  readonly wantsUnused: boolean;
}

/** One request of a call to one node: keeps the node's record and tells the observer how it went. */
export class Attempt<Answer> {
  readonly parts: UpstreamParts;
  readonly owner: AttemptOwner<Answer>;
  readonly kind: AttemptKind;
  readonly node: UpstreamNode;
  readonly deadline: Instant;
  readonly request: WireRequest;
  readonly startedAt: Instant;
  /** It runs beside an earlier one. */
  readonly isBeside: boolean;
  schedule: Schedule = ALONE;
  isOver = false;
  isLate = false;
  /** Its failure says nothing against the node: the client had sent less than the node was ready to take. */
  isExcused = false;
  private readonly upload: Upload | undefined;
  private readonly reader: AnswerReader;
  private readonly trace: AttemptTrace | undefined;
  /** Since when nothing is waited for but the node. */
  private quietSince: Instant;
  private isRecorded = false;

  constructor(parts: UpstreamParts, owner: AttemptOwner<Answer>, options: AttemptOptions) {
    const { kind, node, fields, body } = options;
    const { method, operation, path, trace } = owner.call;
    this.parts = parts;
    this.owner = owner;
    this.kind = kind;
    this.isBeside = options.isBeside;
    this.node = node;
    this.deadline = options.deadline;
    this.upload = options.upload;
    this.startedAt = options.startedAt;
    this.quietSince = options.startedAt;
    this.trace = trace?.attempt({ upstream: parts.config.name, operation, method, node: node.index, kind });
    this.reader = owner.mode.createReader(this);
    const sent = this.trace === undefined ? fields : tracedFields(fields, this.trace.fields);
    const { wantsUnused } = options;
    const request = { method, path: node.basePath + path, fields: sent, body, wantsUnused };
    this.request = new WireRequest(node.connections, request, this.reader);
  }

  /** Sends the request. */
  send(): void {
    this.node.inFlight += 1;
    this.node.calls += 1;
    this.request.send();
  }

  /** When something about it has to be decided next. */
  get due(): Instant {
    const { hedgeAt, retryAt, lateAt } = this.schedule;
    return Math.min(this.deadline, hedgeAt, retryAt, lateAt);
  }

  /** How long the node has had, but for the time in which it waited for a client. */
  get elapsed(): Duration {
    return this.parts.clock.now() - this.quietSince;
  }

  /** See {@link AnswerReader.isHeldUp}. */
  get isHeldUp(): boolean {
    return this.reader.isHeldUp;
  }

  /** What has to be known to read its answer. */
  get context() {
    const { config, limits } = this.parts;
    const { fields, operation } = this.owner.call;
    return {
      upstream: config.name,
      node: this.node.index,
      maxBody: limits.responseBody,
      isConditional: isConditional(fields),
      isOwnRefusal: isOwnRefusal(config, fields),
      isOptional: isOfVersion2(operation),
    };
  }

  /** The node took or sent something, or the client caught up. */
  progressed(): void {
    this.quietSince = this.parts.clock.now();
  }

  /** Notes that it is late, if it is. */
  noteLate(now: Instant): void {
    if (this.isLate || now < this.schedule.lateAt) return;
    this.isLate = true;
    const { nodes } = this.parts;
    // When no other node answers either, it is not this one's fault.
    if (!nodes.all.some((node) => node !== this.node && node.lastGoodAt > this.startedAt)) return;
    if (!isHopeless(this.parts, "timeout", this.owner.call)) nodes.report(this.node, "overdue");
  }

  /** The head of an answer is here that is streamed to the client: what it says counts at once, its end later. */
  answering(busy: Failure | undefined, fields: Fields): void {
    this.isExcused = busy !== undefined && this.isClientBehind;
    this.owner.attemptAnswering(this, busy);
    if (busy !== undefined) this.record(busy, fields);
    this.progressed();
  }

  /** How it fails when its time is up. */
  get timeout(): Failure {
    return (this.request.isConnected ? answerTimeout : connectTimeout)(this.parts.config.name);
  }

  /** Its time is up: ends it as a failure. */
  expire(): void {
    this.end({ answer: undefined, failure: this.timeout });
  }

  /** Ends it with what came of it. */
  end(reading: Reading<Answer>, fields?: Fields): void {
    if (this.isOver) return;
    this.isExcused = reading.failure !== undefined && this.isClientBehind;
    this.leave(reading.failure?.error);
    this.conclude(reading, fields);
  }

  /** All of a streamed answer is on its way to the client; `busy` as in {@link answering}. */
  complete(busy: Failure | undefined): void {
    if (this.isOver) return;
    this.isExcused = false;
    this.leave(undefined);
    this.conclude({ answer: undefined, failure: busy }, undefined);
  }

  private conclude(reading: Reading<Answer>, fields: Fields | undefined): void {
    const { failure } = reading;
    const { status } = this.request;
    this.record(failure, fields);
    if (failure !== undefined) this.observe("failure", failure);
    else this.observe(status !== undefined && status < 400 ? "success" : "error", undefined);
    this.owner.attemptEnded(this, reading);
  }

  /** Nobody needs it any more, for this reason; undefined: because another node was quicker. */
  cancel(reason: Error | undefined): void {
    if (this.isOver) return;
    this.leave(reason);
    if (reason === undefined) {
      // Without the lower bounds of those that were too slow, the tail would look shorter than it is.
      recordLatency(this);
      accuse(this);
      if (this.kind === "hedge") this.parts.observer.hedge(this.parts.config.name, "lost");
    }
    this.observe("cancelled", undefined);
  }

  /**
   * Whether all that the client sent so far is on its way to the node, and there is more to come: if the node breaks
   * the connection or answers that it is tired of waiting, it is not to blame.
   */
  private get isClientBehind(): boolean {
    return this.upload?.isBehind === true && this.request.isSent;
  }

  /** The answer breaks with `reason`, if there is one. */
  private leave(reason: Error | undefined): void {
    this.isOver = true;
    this.node.inFlight -= 1;
    this.request.abort(reason);
    this.reader.abort(reason);
  }

  /** Enters it in the record of the node, and does what a refusal asks for; once. */
  private record(failure: Failure | undefined, fields: Fields | undefined): void {
    if (this.isRecorded) return;
    this.isRecorded = true;
    if (!this.isExcused) recordOutcome(this, failure, fields);
    if (failure !== undefined) {
      const { operation } = this.owner.call;
      const { reason, isConflict = false } = failure;
      heedRefusal(this.parts, this.node, { operation, reason, fields, isConflict });
    }
  }

  private observe(outcome: AttemptOutcome, failure: Failure | undefined): void {
    const end = { outcome, reason: failure?.reason, status: this.request.status };
    const { operation, fields } = this.owner.call;
    this.parts.observer.attempt({
      upstream: this.parts.config.name,
      operation,
      kind: this.kind,
      node: this.node.index,
      fields,
      seconds: (this.parts.clock.now() - this.startedAt) / 1_000,
      ...end,
    });
    this.trace?.end(end);
  }
}
