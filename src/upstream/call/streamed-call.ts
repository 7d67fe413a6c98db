import { refusedBody, Upload, uploadTimeout } from "../../bodies/upload.ts";
import type { CancelTimer, Instant } from "../../clock.ts";
import { clientGone, GatewayError } from "../../errors.ts";
import type { Fields } from "../../fields.ts";
import type { StreamedAnswer, StreamedCall } from "../call.ts";
import { answerTimeout, type Failure, tooManyAnswers } from "../failure.ts";
import type { UpstreamParts } from "../parts.ts";
import { Admission } from "./admission.ts";
import { Attempt, chooseNode, readingContext } from "./attempt.ts";
import { obeyRefusal, recordOutcome, reportCall } from "./outcome.ts";
import { StreamedAnswerReader, type StreamListener } from "./streamed-answer.ts";

/** Where the answer or the error of a call goes. */
interface Settle {
  readonly resolve: (answer: StreamedAnswer) => void;
  readonly reject: (error: Error) => void;
}

/**
 * One call both of whose bodies are passed on as they come: one attempt, and nothing runs beside it. The promise is settled
 * by the head of the answer; the call goes on to the end of it.
 *
 * A body that is still on its way from the client has a deadline of its own, and the time of the answer counts from when
 * the body is here. A client that is slow, to send or to read, ends the call without a word against the node.
 *
 * @throws as `runCall`, and 408 or 413 for the request body
 */
export function streamCall(parts: UpstreamParts, call: StreamedCall): Promise<StreamedAnswer> {
  return new Promise((resolve, reject) => {
    void new StreamedRun(parts, call, { resolve, reject }).run();
  });
}

/** What a streamed call knows and holds while it runs. */
class StreamedRun implements StreamListener {
  private readonly parts: UpstreamParts;
  private readonly call: StreamedCall;
  private readonly settle: Settle;
  private readonly admission: Admission;
  private readonly upload: Upload | undefined;
  /** Of the answer. */
  private deadline: Instant;
  private attempt: Attempt | undefined;
  private reader: StreamedAnswerReader | undefined;
  private cancelTimer: CancelTimer | undefined;
  /** Fulfilled when the answer is complete, or has failed; rejected with what says nothing about the upstream. */
  private readonly end = Promise.withResolvers<Failure | undefined>();
  /** The breaker has its report. */
  private isReported = false;
  /** The node's record has it. */
  private isRecorded = false;

  constructor(parts: UpstreamParts, call: StreamedCall, settle: Settle) {
    const now = parts.clock.now();
    this.parts = parts;
    this.call = call;
    this.settle = settle;
    this.deadline = Math.min(call.deadline, now + parts.config.timeout);
    this.admission = new Admission(parts, parts.passThroughBreaker);
    this.upload = call.body instanceof Upload ? this.follow(call.body, this.deadline - now) : undefined;
  }

  /** From the admission to the end of the answer. Never rejects. */
  async run(): Promise<void> {
    const { call, settle } = this;
    const onAbort = (): void => this.end.reject(clientGone());
    call.signal?.addEventListener("abort", onAbort);
    this.begin().catch(this.end.reject);
    try {
      const failure = await this.end.promise;
      this.report(failure);
      // Where the head of the answer has gone out, this does nothing.
      if (failure !== undefined) settle.reject(failure.error);
    } catch (error) {
      this.breakOff(error as Error);
      settle.reject(error as Error);
    } finally {
      this.cancelTimer?.();
      call.signal?.removeEventListener("abort", onAbort);
      this.admission.leave();
    }
  }

  head(busy: Failure | undefined, fields: Fields): void {
    const isExcused = busy !== undefined && this.isClientBehind;
    if (!isExcused) this.report(busy);
    if (busy !== undefined) this.record(busy, fields, isExcused);
    this.progressed();
  }

  ready(answer: Parameters<StreamListener["ready"]>[0]): void {
    const { startedAt, request } = this.attempt!;
    this.settle.resolve({
      ...answer,
      requestedAt: startedAt,
      origin: request.exchange,
      mayBeCut: () => request.mayBeCut,
    });
  }

  progressed(): void {
    this.attempt!.quietSince = this.parts.clock.now();
  }

  ended(failure: Failure | undefined, isComplete: boolean): void {
    const attempt = this.attempt!;
    if (attempt.isOver) return;
    const broken = this.upload?.errored;
    // The client's body is refused: that says nothing of the node, nor of what it was shown.
    if (broken instanceof GatewayError) return this.end.reject(broken);
    const isExcused = !isComplete && failure !== undefined && this.isClientBehind;
    const reason = isComplete ? undefined : failure?.error;
    attempt.close(reason);
    this.reader!.abort(reason);
    this.record(failure, undefined, isExcused);
    attempt.observeEnd(failure);
    if (isExcused) this.end.reject(failure.error);
    else this.end.resolve(failure);
  }

  left(error: Error): void {
    if (!this.attempt!.isOver) this.end.reject(error);
  }

  /** All that comes before the answer: places, credentials, a call of `rateLimit`, a node. */
  private async begin(): Promise<void> {
    const { call, upload, admission } = this;
    const { priority, signal, bodyDeadline = this.deadline } = call;
    this.throwIfVain();
    if (upload !== undefined) await admission.enterUploads(upload, { priority, deadline: bodyDeadline, signal });
    await admission.enter({ priority, deadline: this.deadline, signal });
    if (admission.hasLeft) return;
    this.arm();
    const credentials = await admission.pay(call, this.deadline);
    if (!admission.hasLeft) this.send(credentials);
  }

  /** @throws GatewayError for a call that need not begin */
  private throwIfVain(): void {
    const { parts, call, upload } = this;
    const { clock, config, limits } = parts;
    if (call.signal?.aborted === true) throw clientGone();
    if (this.deadline <= clock.now()) throw answerTimeout(config.name).error;
    if (Buffer.isBuffer(call.body) && call.body.length > limits.requestBody) {
      throw refusedBody("too-large", limits.requestBody);
    }
    if (upload !== undefined && upload.errored !== null) throw upload.errored;
  }

  private send(credentials: Fields | undefined): void {
    const { parts, call } = this;
    const node = chooseNode(parts, { tried: [], pagination: call.pagination, isBeside: false });
    const giveUp = (): void => this.ended(tooManyAnswers(), false);
    const held = parts.answers.begin({ largest: parts.limits.responseBody, giveUp });
    const reader = new StreamedAnswerReader(readingContext(parts, call, node.index), this, held);
    this.reader = reader;
    this.attempt = new Attempt(
      parts,
      call,
      {
        kind: "stream",
        isBeside: false,
        node,
        startedAt: parts.clock.now(),
        // The time is the call's to keep.
        deadline: Infinity,
        credentials,
        body: call.body,
        wantsUnused: false,
        held,
      },
      reader,
    );
    reader.follow(this.attempt.request);
    this.attempt.send();
    this.arm();
  }

  private follow(upload: Upload, answerTime: number): Upload {
    upload.onArrived = (): void => {
      this.admission.leaveUploads();
      this.deadline = this.parts.clock.now() + answerTime;
      if (this.attempt === undefined) return;
      this.progressed();
      this.arm();
    };
    upload.on("error", (error) => {
      if (error instanceof GatewayError) this.end.reject(error);
    });
    return upload;
  }

  /** When it ends. */
  private get due(): Instant {
    return this.upload?.hasArrived === false ? (this.call.bodyDeadline ?? this.deadline) : this.deadline;
  }

  private arm(): void {
    if (this.admission.hasLeft) return;
    const { clock } = this.parts;
    this.cancelTimer?.();
    // After the event loop was held up, timers run before answers are read that have arrived long since.
    this.cancelTimer = clock.after(this.due - clock.now(), () => setImmediate(() => this.expire()));
  }

  private expire(): void {
    const { upload, attempt, parts } = this;
    if (this.admission.hasLeft) return;
    if (parts.clock.now() < this.due) return this.arm();
    if (attempt === undefined) this.end.reject(answerTimeout(parts.config.name).error);
    else if (upload?.hasArrived === false) {
      this.end.reject(upload.isBehind ? uploadTimeout() : attempt.timeout.error);
    } else if (this.reader!.isHeldUp) {
      this.end.reject(new GatewayError("answer_not_read", "the answer was not read in time"));
    } else this.ended(attempt.timeout, false);
  }

  /**
   * Whether all that the client sent so far is on its way to the node, and there is more to come: if the node breaks
   * the connection or answers that it is tired of waiting, it is not to blame.
   */
  private get isClientBehind(): boolean {
    return this.upload?.isBehind === true && this.attempt!.request.isSent;
  }

  /** Reports to the breaker, once, and remembers a request that failed. */
  private report(failure: Failure | undefined): void {
    const { parts, call } = this;
    const breaker = this.isReported ? undefined : parts.passThroughBreaker;
    this.isReported = true;
    reportCall({ parts, call, breaker, isExhausted: true }, failure, this.attempt!.elapsed);
  }

  /** Enters it in the record of the node, and does what a refusal asks for; once. */
  private record(failure: Failure | undefined, fields: Fields | undefined, isExcused: boolean): void {
    if (this.isRecorded) return;
    this.isRecorded = true;
    const attempt = this.attempt!;
    if (!isExcused) recordOutcome(attempt, failure, fields);
    if (failure !== undefined) obeyRefusal(attempt, failure, fields);
  }

  /** Ends it for a reason that says nothing about the upstream. */
  private breakOff(error: Error): void {
    const { attempt } = this;
    this.upload?.destroy();
    if (attempt === undefined || attempt.isOver) return;
    attempt.close(error);
    this.reader!.abort(error);
    attempt.observe("cancelled");
  }
}
