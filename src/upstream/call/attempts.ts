import type { Duration, Instant } from "../../clock.ts";
import { GatewayError } from "../../errors.ts";
import type { Fields } from "../../fields.ts";
import type { AnswerOrigin, StreamedCall } from "../call.ts";
import { consequences, type Failure, type FailureReason } from "../failure.ts";
import type { UpstreamNode } from "../nodes/node.ts";
import type { AttemptKind } from "../observer.ts";
import type { UpstreamParts } from "../parts.ts";
import type { Reading } from "../wire/answer.ts";
import { requestFields } from "../wire/request.ts";
import type { Upload } from "../../bodies/upload.ts";
import type { Admission } from "./admission.ts";
import { isHopeless } from "./attempt-outcome.ts";
import { type AnswerReader, Attempt, type AttemptOwner } from "./attempt.ts";
import { decideHedge, scheduleAttempt } from "./hedging.ts";
import { payForBeside, planRetry } from "./retry-plan.ts";

/** How the answer of a call is taken. */
export interface AnswerMode<Answer> {
  /** Both bodies are passed on as they come: there is one attempt, nothing runs beside it, and clients are waited for. */
  readonly isStreamed: boolean;
  readonly createReader: (attempt: Attempt<Answer>) => AnswerReader;
}

/** The call that attempts are made for. */
export interface AttemptingCall<Answer> {
  readonly parts: UpstreamParts;
  readonly call: StreamedCall;
  readonly mode: AnswerMode<Answer>;
  readonly admission: Admission;
  /** Of all attempts together. */
  readonly deadline: Instant;
  readonly upload: Upload | undefined;
  readonly isOver: boolean;
  /** Something is to be decided earlier or later than it was. */
  arm(): void;
  /** A streamed answer begins, or one is complete. */
  answer(answer: Answer): void;
  /** What came of it is known, if not all of it is here. `elapsed`: how long a node had. */
  remember(failure: Failure | undefined, elapsed: Duration): void;
  /** Ends with what came of the last attempt; `elapsed` as in {@link remember}, by default since the call began. */
  conclude(reading: Reading<Answer>, elapsed?: Duration): void;
  /** Ends with an error that says nothing about the upstream. */
  fail(error: unknown): void;
}

/** The attempts of one call: on one node after the other, and one beside another when that is slow. */
export class Attempts<Answer> implements AttemptOwner<Answer> {
  readonly call: StreamedCall;
  readonly mode: AnswerMode<Answer>;
  private readonly run: AttemptingCall<Answer>;
  private readonly parts: UpstreamParts;
  private readonly running: Attempt<Answer>[] = [];
  private tried: UpstreamNode[] = [];
  /** Those that count against `retry.attempts`: all but hedges. */
  private counted = 1;
  private retryAt: Instant = Infinity;
  private lastFailure: Reading<Answer> | undefined;
  /** One beside another waits for its call of `rateLimit`. */
  private isStartingBeside = false;
  private isExpiring = false;
  /** Where answers came from that were to other requests. */
  private readonly strayed: AnswerOrigin[] = [];

  constructor(run: AttemptingCall<Answer>) {
    this.run = run;
    this.call = run.call;
    this.mode = run.mode;
    this.parts = run.parts;
  }

  /** The request was tried more than once, or there was nothing else to try. */
  get areExhausted(): boolean {
    return this.counted > 1 || this.mode.isStreamed || this.parts.nodes.all.length === 1;
  }

  /** The one that runs; undefined when there is none, and the first of them when there are several. */
  get first(): Attempt<Answer> | undefined {
    return this.running[0];
  }

  /** When something about them has to be decided next. */
  get due(): Instant {
    let due = this.retryAt;
    for (const attempt of this.running) due = Math.min(due, attempt.due);
    return due;
  }

  /** Makes another: takes a call out of `rateLimit`, which is there at once as a rule, and sends. */
  begin(kind: AttemptKind): void {
    const { operation, priority, signal } = this.call;
    const { deadline } = this.run;
    const paid = this.parts.rateLimit?.take({ operation, priority, deadline, signal });
    if (paid === undefined) return this.authorize(kind, false);
    this.run.arm();
    paid.then(
      () => this.authorize(kind, false),
      (error: unknown) => {
        if (this.run.isOver) return;
        this.parts.observer.refused(this.parts.config.name, "rate-limit");
        this.giveUp(error);
      },
    );
  }

  /** Does what is due. */
  decide(now: Instant): void {
    for (const attempt of this.running.slice()) {
      if (now >= attempt.deadline) attempt.expire();
      else if (now >= attempt.due) this.decideBeside(attempt, now);
      if (this.run.isOver) return;
    }
    if (now < this.retryAt) return;
    this.retryAt = Infinity;
    this.begin("retry");
  }

  /** The time of the whole call is up: no retry any more, the failure of the last attempt is the answer. */
  expire(): void {
    this.isExpiring = true;
    for (const attempt of this.running.slice()) attempt.expire();
  }

  /** Ends all of them; see {@link Attempt.cancel}. */
  cancel(reason: Error | undefined): void {
    for (const attempt of this.running.splice(0)) attempt.cancel(reason);
  }

  /** The next attempt cannot be made: what is known so far is the answer, if no other attempt runs. */
  giveUp(error: unknown): void {
    if (this.run.isOver || this.running.length > 0) return;
    if (this.lastFailure === undefined) this.run.fail(error);
    else this.run.conclude(this.lastFailure);
  }

  attemptAnswering(attempt: Attempt<Answer>, busy: Failure | undefined): void {
    if (!attempt.isExcused) this.run.remember(busy, attempt.elapsed);
  }

  answer(answer: Answer): void {
    this.run.answer(answer);
  }

  fail(error: unknown): void {
    this.run.fail(error);
  }

  attemptEnded(attempt: Attempt<Answer>, reading: Reading<Answer>): void {
    this.running.splice(this.running.indexOf(attempt), 1);
    const { failure } = reading;
    if (this.mode.isStreamed) {
      return attempt.isExcused ? this.run.fail(failure?.error) : this.run.conclude(reading, attempt.elapsed);
    }
    const { origin } = attempt.request;
    if (failure?.reason === "out-of-step" && origin !== undefined) this.strayed.push(origin);
    if (failure !== undefined && consequences[failure.reason].elsewhere) {
      this.lastFailure = reading;
      // Another attempt that runs may still bring an answer.
      if (this.running.length === 0) this.tryAgain(attempt.node, failure.reason);
      return;
    }
    if (attempt.kind === "hedge") this.parts.observer.hedge(this.parts.config.name, "won");
    // The same request has its own answer elsewhere: the first one was another's.
    for (const each of this.strayed) each.leaveStep("another");
    this.run.conclude(reading);
  }

  private tryAgain(node: UpstreamNode, reason: FailureReason): void {
    const { tried, counted: attempts, call, parts } = this;
    const failed = { node, reason, tried, attempts, deadline: this.run.deadline, call };
    const plan = this.isExpiring ? undefined : planRetry(parts, failed);
    if (plan === undefined) {
      // A registry that answers so over a new connection too has a way of its own: clients choose what they ask for.
      if (this.strayed.length === 1) this.strayed[0]!.recentAnswers.forgetAll();
      return this.run.conclude(this.lastFailure!);
    }
    parts.observer.retry(parts.config.name, reason);
    this.counted += 1;
    this.tried = [...plan.avoid];
    this.retryAt = plan.at;
    this.run.arm();
  }

  /** Decides about one that has not ended and is slow, or late. */
  private decideBeside(attempt: Attempt<Answer>, now: Instant): void {
    attempt.noteLate(now);
    const state = {
      schedule: attempt.schedule,
      isAlone: this.running.length === 1 && !this.isStartingBeside,
      hasOther: this.parts.choice.hasOtherBeside(now, this.tried),
      mayRetry: this.counted < this.parts.config.retry.attempts && !isHopeless(this.parts, "timeout", this.call),
    };
    const { action, schedule } = decideHedge(state, now);
    attempt.schedule = schedule;
    if (action === "wait" || !this.run.admission.tryEnterBeside() || !payForBeside(this.parts, action)) return;
    if (action === "retry") this.counted += 1;
    this.beginBeside(action);
  }

  /** Begins another beside the one that runs, if no other call waits for one of `rateLimit`. */
  private beginBeside(kind: "hedge" | "retry"): void {
    const paid = this.parts.rateLimit?.tryTake(this.call.operation, "background") ?? true;
    if (paid === true) return this.authorize(kind, true);
    if (paid === false) return;
    this.isStartingBeside = true;
    void paid.then((isPaid) => {
      this.isStartingBeside = false;
      if (isPaid && !this.run.isOver && this.running.length === 1) this.authorize(kind, true);
    });
  }

  private authorize(kind: AttemptKind, isBeside: boolean): void {
    if (this.run.isOver) return;
    const { credentials } = this.parts;
    const fields = credentials?.fields({ deadline: this.run.deadline, signal: this.call.signal });
    if (!(fields instanceof Promise)) return this.send(kind, isBeside, fields);
    this.run.arm();
    fields.then(
      (each) => this.send(kind, isBeside, each),
      (error: unknown) => this.giveUp(error),
    );
  }

  private send(kind: AttemptKind, isBeside: boolean, credentialFields: Fields | undefined): void {
    if (this.run.isOver) return;
    const { parts, call } = this;
    const { deadline, upload, mode } = this.run;
    const now = parts.clock.now();
    if (parts.orders.isCacheOnly) return this.giveUp(parts.orders.refusal());
    if (parts.nodes.disabledBecause !== undefined) return this.giveUp(parts.nodes.whyNone());
    let node = parts.choice.choose(now, this.tried, call.pagination);
    if (!isBeside) node ??= parts.choice.choose(now, [], call.pagination);
    if (node === undefined) return this.giveUp(parts.nodes.whyNone());
    if (node.refusesUntil > now) return this.giveUp(leftAlone(parts.config.name, node.refusesUntil - now));
    this.tried.push(node);
    const { attemptTimeout, hedge } = parts.config;
    // A sole node may use all of the time, and the time of a streamed answer is the call's to keep.
    const isSole = mode.isStreamed || !parts.choice.hasOther(Infinity, [node]);
    const attempt = new Attempt<Answer>(parts, this, {
      kind,
      isBeside,
      node,
      startedAt: now,
      deadline: mode.isStreamed ? Infinity : isSole ? deadline : Math.min(deadline, now + attemptTimeout),
      fields: requestFields(
        call.fields,
        parts.credentials?.fieldName,
        credentialFields,
        mode.isStreamed && call.body !== undefined,
      ),
      body: upload ?? call.body,
      upload,
      wantsUnused: this.strayed.length > 0,
    });
    if (!isSole && call.priority !== "background") {
      const mayHedge = kind === "first" && hedge.enabled && (call.priority === "post" || call.priority === "miss");
      const slow = parts.latencies.slow(call.operation);
      attempt.schedule = scheduleAttempt({ now, deadline, attemptTimeout, slow, mayHedge });
    }
    this.running.push(attempt);
    attempt.send();
    this.run.arm();
  }
}

/** The 429 while no node may be asked: each answered 429 and said for how long. */
function leftAlone(upstream: string, wait: Duration): GatewayError {
  const retryAfter = Math.max(1, Math.ceil(wait / 1_000));
  const text = `upstream "${upstream}" answered 429 Too Many Requests and is left alone for as long as it asked`;
  return new GatewayError("too_many_requests", `${text}; try again in ${retryAfter} s`, { retryAfter });
}
