import { refusedBody, Upload, uploadTimeout } from "../../bodies/upload.ts";
import type { CancelTimer, Duration, Instant } from "../../clock.ts";
import { clientGone, GatewayError } from "../../errors.ts";
import type { StreamedAnswer, StreamedCall, UpstreamAnswer, UpstreamCall } from "../call.ts";
import { answerTimeout, consequences, type Failure } from "../failure.ts";
import type { CallOutcome } from "../observer.ts";
import type { UpstreamParts } from "../parts.ts";
import type { Reading } from "../wire/answer.ts";
import { Admission } from "./admission.ts";
import { digestOf, isTimeout, outcomeOfAnswer, outcomeOfError } from "./attempt-outcome.ts";
import { type AnswerMode, type AttemptingCall, Attempts } from "./attempts.ts";
import { BUFFERED } from "./buffered-answer.ts";
import { STREAMED } from "./streamed-answer.ts";

/** Where the answer or the error of a call goes. */
interface Settle<Answer> {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
  /** Called once, before either. */
  readonly settled: () => void;
}

/** Begins a call whose answer is kept until it is complete. */
export function runCall(parts: UpstreamParts, call: UpstreamCall, settled: () => void): Promise<UpstreamAnswer> {
  return new Promise((resolve, reject) => {
    new CallRun({ parts, call, mode: BUFFERED }, { resolve, reject, settled }).start();
  });
}

/** Begins a call whose answer is passed on as it comes; the promise is settled by its head. */
export function streamCall(parts: UpstreamParts, call: StreamedCall, settled: () => void): Promise<StreamedAnswer> {
  return new Promise((resolve, reject) => {
    new CallRun({ parts, call, mode: STREAMED }, { resolve, reject, settled }).start();
  });
}

/**
 * One call from its admission to the end of its answer: one deadline over all, and the first usable answer wins. As long
 * as nothing has to be waited for, the request is sent before {@link start} returns; one timer serves all deadlines.
 *
 * A body that is still on its way from the client has a deadline of its own, and the time of the answer counts from when
 * the body is here. A client that goes away ends the call; one that is slow, to send or to read, ends it without a word
 * against the node.
 */
class CallRun<Answer extends { readonly status: number }> implements AttemptingCall<Answer> {
  readonly parts: UpstreamParts;
  readonly call: StreamedCall;
  readonly mode: AnswerMode<Answer>;
  readonly admission: Admission;
  readonly upload: Upload | undefined;
  deadline: Instant;
  isOver = false;
  private readonly settle: Settle<Answer>;
  private readonly attempts: Attempts<Answer>;
  private readonly startedAt: Instant;
  /** How long the answer may take. */
  private readonly answerTime: Duration;
  /** When the body has to be here. */
  private readonly bodyDeadline: Instant;
  private cancelTimer: CancelTimer | undefined;
  /** The breaker was told. */
  private isReported = false;
  private isSettled = false;

  constructor(
    { parts, call, mode }: { parts: UpstreamParts; call: StreamedCall; mode: AnswerMode<Answer> },
    settle: Settle<Answer>,
  ) {
    this.parts = parts;
    this.call = call;
    this.mode = mode;
    this.settle = settle;
    this.startedAt = parts.clock.now();
    this.deadline = Math.min(call.deadline, this.startedAt + parts.config.timeout);
    this.answerTime = this.deadline - this.startedAt;
    this.bodyDeadline = call.bodyDeadline ?? this.deadline;
    this.admission = new Admission(parts, this.breaker);
    this.attempts = new Attempts(this);
    this.upload = call.body instanceof Upload ? this.receive(call.body) : undefined;
  }

  /** Begins; the answer or error comes through `settle`. */
  start(): void {
    const { signal, priority, body } = this.call;
    const { config, limits } = this.parts;
    if (signal?.aborted === true) return this.fail(clientGone());
    signal?.addEventListener("abort", this.onAbort);
    if (this.answerTime <= 0) return this.fail(answerTimeout(config.name).error);
    if (this.mode.isStreamed && Buffer.isBuffer(body) && body.length > limits.requestBody) {
      return this.fail(refusedBody("too-large", limits.requestBody));
    }
    if (this.upload === undefined) return this.enter();
    if (this.upload.errored !== null) return this.fail(this.upload.errored);
    this.admission.enterUploads(this.upload, { priority, deadline: this.bodyDeadline, signal }).then(
      () => this.enter(),
      (error: unknown) => this.fail(error),
    );
  }

  private readonly onAbort = (): void => this.fail(clientGone());

  arm(): void {
    if (this.isOver) return;
    this.cancelTimer?.();
    const due = Math.min(this.due, this.attempts.due);
    this.cancelTimer = this.parts.clock.after(due - this.parts.clock.now(), this.onDue);
  }

  answer(answer: Answer): void {
    if (this.isSettled) return;
    this.tell(outcomeOfAnswer(answer.status));
    this.settle.resolve(answer);
  }

  conclude({ answer, failure }: Reading<Answer>, elapsed = this.parts.clock.now() - this.startedAt): void {
    if (this.isOver) return;
    this.finish(undefined);
    this.remember(failure, elapsed);
    if (answer !== undefined) this.answer(answer);
    else if (failure !== undefined) this.reject(failure.error);
  }

  fail(error: unknown): void {
    if (this.isOver) return;
    this.finish(error instanceof Error ? error : new Error(String(error)));
    this.reject(error);
  }

  remember(failure: Failure | undefined, elapsed: Duration): void {
    const digest = failure === undefined ? noDigest : (): string => digestOf(this.call);
    if (!this.isReported) this.breaker.report(failure?.reason, elapsed, digest);
    this.isReported = true;
    if (failure === undefined || !this.attempts.areExhausted) return;
    const isHasty = isTimeout(failure) && !this.breaker.isFairTrial(elapsed);
    if (!isHasty && consequences[failure.reason].fault !== "node") this.parts.hopeless.set(digest(), true);
  }

  private get breaker() {
    return this.mode.isStreamed ? this.parts.passThroughBreaker : this.parts.breaker;
  }

  /** When it ends. */
  private get due(): Instant {
    return this.upload?.hasArrived === false ? this.bodyDeadline : this.deadline;
  }

  private receive(upload: Upload): Upload {
    upload.onArrived = (): void => {
      this.admission.leaveUploads();
      this.deadline = this.parts.clock.now() + this.answerTime;
      this.attempts.first?.progressed();
      if (this.attempts.first !== undefined) this.arm();
    };
    upload.on("error", (error) => {
      if (error instanceof GatewayError) this.fail(error);
    });
    return upload;
  }

  private enter(): void {
    if (this.isOver) return;
    const { signal, priority } = this.call;
    try {
      const entered = this.admission.enter({ priority, deadline: this.deadline, signal });
      if (entered === undefined) return this.begin();
      entered.then(
        () => this.begin(),
        (error: unknown) => this.fail(error),
      );
    } catch (error) {
      this.fail(error);
    }
  }

  private begin(): void {
    if (this.isOver) return;
    if (this.mode.isStreamed) return this.attempts.begin("stream");
    this.parts.retries.earn();
    this.parts.hedges.earn();
    this.attempts.begin("first");
  }

  // After the event loop was held up, timers run before answers are read that have arrived long since: those go first.
  private readonly onDue = (): void => void setImmediate(decide, this);

  decide(): void {
    if (this.isOver) return;
    const now = this.parts.clock.now();
    if (now >= this.due) return this.expire();
    this.attempts.decide(now);
    this.arm();
  }

  private expire(): void {
    const { upload } = this;
    const attempt = this.attempts.first;
    if (attempt === undefined) return this.attempts.giveUp(answerTimeout(this.parts.config.name).error);
    if (upload?.hasArrived === false) return this.fail(upload.isBehind ? uploadTimeout() : attempt.timeout.error);
    if (attempt.isHeldUp) return this.fail(new GatewayError("answer_not_read", "the answer was not read in time"));
    this.attempts.expire();
  }

  private reject(error: unknown): void {
    if (this.isSettled) return;
    // A client in a hurry says nothing about the registry.
    const elapsed = this.parts.clock.now() - this.startedAt;
    const isHasty = error instanceof GatewayError && error.status === 504 && !this.parts.breaker.isFairTrial(elapsed);
    this.tell(isHasty ? undefined : outcomeOfError(error));
    this.settle.reject(error);
  }

  private tell(outcome: CallOutcome | undefined): void {
    const { observer, config } = this.parts;
    this.isSettled = true;
    // Clients choose the paths of streamed calls, those that fail too: not counted as calls of the registry's API.
    if (outcome !== undefined && !this.mode.isStreamed) observer.called(config.name, this.call.operation, outcome);
    this.settle.settled();
  }

  /** `reason`: why nothing more is wanted of attempts that run; undefined: another one was quicker. */
  private finish(reason: Error | undefined): void {
    this.isOver = true;
    this.cancelTimer?.();
    this.call.signal?.removeEventListener("abort", this.onAbort);
    this.attempts.cancel(reason);
    this.admission.leave();
    if (reason !== undefined) this.upload?.destroy();
  }
}

function decide(run: { decide(): void }): void {
  run.decide();
}

function noDigest(): string {
  return "";
}
