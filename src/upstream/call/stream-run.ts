import { Readable } from "node:stream";
import type { CancelTimer, Duration, Instant } from "../../clock.ts";
import { clientGone, GatewayError } from "../../errors.ts";
import { fieldValue } from "../../fields.ts";
import type { Fields } from "../../fields.ts";
import { admit, admitUpload } from "./admission.ts";
import { endToEndFields } from "../../answer-fields.ts";
import { findBusy } from "../wire/answer.ts";
import { heedRefusal, recordOutcome } from "./attempt-outcome.ts";
import type { Settle } from "./call-run.ts";
import type { StreamedAnswer, StreamedCall } from "../call.ts";
import { isOwnRefusal } from "../credentials/credentials.ts";
import { connectionFailure } from "../wire/connection-failure.ts";
import { answerTimeout, connectTimeout, consequences } from "../failure.ts";
import type { Failure } from "../failure.ts";
import type { UpstreamNode } from "../node/node.ts";
import type { UpstreamParts } from "../parts.ts";
import { digestOf } from "../recent-requests.ts";
import { isConditional, requestFields, continueTrace } from "../wire/request-fields.ts";
import { refuseHead, shapeBody } from "../wire/streamed-answer.ts";
import { StreamedExchange } from "../wire/streamed-exchange.ts";
import type { StreamedListener } from "../wire/streamed-exchange.ts";
import type { AttemptTrace } from "../observer.ts";
import { tooLargeUpload, Upload, uploadTimeout } from "../wire/upload.ts";

function throwIfGone(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw clientGone();
}

/**
 * One streamed call: one attempt on one node, within the limits. Its body has one deadline, and from when that is here
 * its answer, body included, has another. A client that goes away ends it; one that is slow, to send or to read, ends
 * it without a word against the node.
 */
export class StreamRun implements StreamedListener {
  private readonly parts: UpstreamParts;
  private readonly call: StreamedCall;
  private readonly settle: Settle<StreamedAnswer>;
  private readonly startedAt: Instant;
  /** How long the answer may take. */
  private readonly patience: Duration;
  private readonly bodyDeadline: Instant;
  private readonly upload: Upload | undefined;
  private deadline: Instant;
  /** Since when nothing is waited for but the node. */
  private quietSince: Instant;
  private exchange: StreamedExchange | undefined;
  private node: UpstreamNode | undefined;
  private output: Readable | undefined;
  private status: number | undefined;
  /** Of the answer that is passed on, if it is none of the registry's own. */
  private busy: Failure | undefined;
  private trace: AttemptTrace | undefined;
  private cancelTimer: CancelTimer | undefined;
  private hasPlace = false;
  private hasUploadPlace = false;
  /** The node has sent all of its answer. */
  private isComplete = false;
  /** The head of the answer was passed on: what it says of its coding is true as far as was looked. */
  private isPassedOn = false;
  private isOver = false;

  constructor(parts: UpstreamParts, call: StreamedCall, settle: Settle<StreamedAnswer>) {
    this.parts = parts;
    this.call = call;
    this.settle = settle;
    this.startedAt = parts.clock.now();
    this.quietSince = this.startedAt;
    this.deadline = Math.min(call.deadline, this.startedAt + parts.config.timeout);
    this.patience = this.deadline - this.startedAt;
    this.bodyDeadline = call.bodyDeadline ?? this.deadline;
    this.upload = call.body instanceof Readable ? this.receive(call.body) : undefined;
  }

  /** Begins; rejects through `settle` when there is no answer to stream. */
  async start(): Promise<void> {
    const { parts, upload, bodyDeadline } = this;
    const { signal, priority, operation, body } = this.call;
    const breaker = parts.passThroughBreaker;
    try {
      throwIfGone(signal);
      if (this.patience <= 0) throw answerTimeout(parts.config.name).error;
      const { requestBody } = parts.limits;
      if (Buffer.isBuffer(body) && body.length > requestBody) throw tooLargeUpload(requestBody);
      if (upload !== undefined) {
        this.hasUploadPlace = await admitUpload(parts, upload, { priority, deadline: bodyDeadline, signal, breaker });
        if (upload.hasArrived) this.leaveUploads();
      }
      const { deadline } = this;
      await admit(parts, { priority, deadline, signal, breaker });
      this.hasPlace = true;
      await parts.rateLimit?.take({ operation, priority, deadline, signal });
      const fields = (await parts.credentials?.fields({ deadline, signal })) ?? [];
      throwIfGone(signal);
      if (upload?.errored instanceof GatewayError) throw upload.errored;
      this.send(fields);
    } catch (error) {
      upload?.destroy();
      this.finish();
      this.settle.reject(error);
    }
  }

  answered(status: number, fields: Fields, body: Readable): void {
    const { parts, call, node } = this;
    const { operation } = call;
    this.status = status;
    this.progressed();
    const passed = endToEndFields(fields);
    const refusal = refuseHead(parts, {
      status,
      fields,
      passed,
      isConditional: isConditional(call.fields),
      isOwnRefusal: isOwnRefusal(parts.config, call.fields),
    });
    const failure = refusal ?? findBusy(status, passed, parts.config.name);
    this.report(failure);
    if (failure !== undefined) {
      const { reason } = failure;
      heedRefusal(parts, node!, { operation, reason, fields: refusal === undefined ? passed : undefined });
    }
    if (refusal !== undefined) return this.fail(refusal);
    this.busy = failure;
    if (failure !== undefined) this.record(failure);
    this.output = shapeBody(
      parts,
      { status, fields, body },
      {
        ready: (shaped) => {
          this.isPassedOn = true;
          this.settle.resolve({ status, fields: passed, body: shaped });
          if (this.isComplete) this.succeed();
        },
        refused: (refusal) => this.fail(refusal),
        ended: (error) => {
          if (error) this.exchange?.abort(error);
          this.finish();
        },
      },
    );
  }

  progressed(): void {
    this.quietSince = this.parts.clock.now();
  }

  failed(error: unknown, isAnswering: boolean): void {
    const failure = connectionFailure(this.parts.config.name, error, isAnswering);
    if (!isAnswering) this.report(failure);
    this.fail(failure);
  }

  completed(): void {
    this.isComplete = true;
    if (this.isPassedOn) this.succeed();
  }

  private succeed(): void {
    if (this.isOver) return;
    this.observe(this.busy === undefined ? "success" : "failure", this.busy);
    if (this.busy === undefined) this.record(undefined);
    this.finish();
  }

  /**
   * Whether all that the client sent so far is on its way to the node, and there is more to come: if the node breaks
   * the connection or answers that it is tired of waiting, it is not to blame.
   */
  private get isClientBehind(): boolean {
    return this.exchange?.isSent === true && this.upload?.isBehind === true;
  }

  private get quietTime(): Duration {
    return this.parts.clock.now() - this.quietSince;
  }

  private receive(body: Readable): Upload {
    const upload = new Upload(body, { most: this.parts.limits.requestBody, onArrived: this.onArrived });
    upload.on("error", (error) => {
      // Before it was sent, whoever waits to send it finds out.
      if (error instanceof GatewayError && this.exchange !== undefined) this.giveUp(error);
    });
    return upload;
  }

  private readonly onArrived = (): void => {
    this.leaveUploads();
    this.progressed();
    this.deadline = this.quietSince + this.patience;
    if (this.exchange !== undefined && !this.isOver) this.arm();
  };

  private send(credentialFields: Fields): void {
    const { parts, call } = this;
    const isDisabled = parts.nodes.disabledBecause !== undefined;
    const node = isDisabled ? undefined : parts.choice.choose(parts.clock.now(), [], call.walk);
    if (node === undefined) throw parts.nodes.whyNone();
    this.node = node;
    node.inFlight += 1;
    call.signal?.addEventListener("abort", this.onAbort, { once: true });
    const fields = [...requestFields(call.fields, parts.credentials?.fieldName), ...credentialFields];
    const length = fieldValue(call.fields, "content-length");
    if (length !== undefined && call.body !== undefined) fields.push("content-length", length);
    this.trace = call.trace?.attempt({
      upstream: parts.config.name,
      operation: call.operation,
      method: call.method,
      node: node.index,
      kind: "stream",
    });
    this.progressed();
    this.arm();
    this.exchange = new StreamedExchange(
      {
        method: call.method,
        path: node.basePath + call.path,
        fields: this.trace === undefined ? fields : continueTrace(fields, this.trace),
        body: this.upload ?? call.body,
      },
      node.connections,
      this,
    );
  }

  /** When it ends: until the body is here, at the deadline for that. */
  private get due(): Instant {
    return this.upload?.hasArrived === false ? this.bodyDeadline : this.deadline;
  }

  private arm(): void {
    this.cancelTimer?.();
    this.cancelTimer = this.parts.clock.after(this.due - this.parts.clock.now(), this.onDue);
  }

  private readonly onAbort = (): void => this.giveUp(clientGone());

  // After the event loop was held up, timers run before what has arrived long since is read: that goes first.
  private readonly onDue = (): void => void setImmediate(this.expire);

  private readonly expire = (): void => {
    const { exchange, upload, parts } = this;
    if (this.isOver) return;
    // The body has arrived meanwhile; or the timer is a little early.
    if (parts.clock.now() < this.due) return this.arm();
    const failure = (exchange?.isConnected === true ? answerTimeout : connectTimeout)(parts.config.name);
    if (upload?.hasArrived === false) return this.giveUp(upload.isBehind ? uploadTimeout() : failure.error);
    if (exchange?.isHeldUp === true)
      return this.giveUp(new GatewayError("answer_not_read", "the answer was not read in time"));
    if (this.status === undefined) this.report(failure);
    this.fail(failure);
  };

  private fail(failure: Failure): void {
    if (this.isOver) return;
    this.observe("failure", failure);
    // An answer that says the node is busy was recorded when it began.
    if (this.busy === undefined) this.record(failure);
    this.end(failure.error);
  }

  /** Tells the breaker, once. */
  private report(failure: Failure | undefined): void {
    if (failure !== undefined && this.isClientBehind) return;
    this.parts.passThroughBreaker.report(failure?.reason, this.quietTime, () => digestOf(this.call));
  }

  /** Enters it in the node's record, once. */
  private record(failure: Failure | undefined): void {
    if (this.node === undefined || (failure !== undefined && this.isClientBehind)) return;
    const { parts, call } = this;
    recordOutcome(parts, this.node, { failure, elapsed: this.quietTime, call });
    if (failure !== undefined && consequences[failure.reason].fault === "unclear")
      parts.hopeless.set(digestOf(call), true);
  }

  /** Ends it for a reason that says nothing about the node. */
  private giveUp(error: GatewayError): void {
    if (this.isOver) return;
    this.observe("cancelled", undefined);
    this.end(error);
  }

  private end(error: GatewayError): void {
    this.finish();
    this.exchange?.abort(error);
    this.output?.destroy(error);
    // Without effect when the head of the answer was passed on already.
    this.settle.reject(error);
  }

  private finish(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.cancelTimer?.();
    this.call.signal?.removeEventListener("abort", this.onAbort);
    if (this.node !== undefined) this.node.inFlight -= 1;
    this.leaveUploads();
    if (this.hasPlace) this.parts.concurrency.leave();
  }

  private leaveUploads(): void {
    if (this.hasUploadPlace) this.parts.concurrency.uploads.leave();
    this.hasUploadPlace = false;
  }

  private observe(outcome: "success" | "failure" | "cancelled", failure: Failure | undefined): void {
    const end = {
      outcome: outcome === "success" && (this.status ?? 0) >= 400 ? "error" : outcome,
      reason: failure?.reason,
      status: this.status,
    } as const;
    this.parts.observer.attempt({
      upstream: this.parts.config.name,
      operation: this.call.operation,
      kind: "stream",
      node: this.node?.index,
      fields: this.call.fields,
      seconds: (this.parts.clock.now() - this.startedAt) / 1_000,
      ...end,
    });
    this.trace?.end(end);
  }
}
