import type { CancelTimer, Instant } from "../../clock.ts";
import { clientGone } from "../../errors.ts";
import type { Fields } from "../../fields.ts";
import { admit } from "./admission.ts";
import type { Reading } from "../wire/answer.ts";
import { Attempt } from "./attempt.ts";
import { isTimeout } from "./attempt-outcome.ts";
import type { UpstreamAnswer, UpstreamCall } from "../call.ts";
import { answerTimeout, consequences } from "../failure.ts";
import type { Failure, FailureReason } from "../failure.ts";
import type { UpstreamNode } from "../node/node.ts";
import type { AttemptKind as AnyAttemptKind } from "../observer.ts";
import type { UpstreamParts } from "../parts.ts";
import { digestOf } from "../recent-requests.ts";
import { isConditional, requestFields } from "../wire/request-fields.ts";
import { planRetry } from "./retry-plan.ts";
import { SideAttempt } from "./side-attempt.ts";

type AttemptKind = Exclude<AnyAttemptKind, "stream">;

/** Where the answer or the error of a call goes; only the first one counts. */
export interface Settle<Answer> {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * One call from its admission to its answer: attempts on one node after the other, one beside another when that is
 * slow, one deadline over all. The first usable answer wins and ends the others. As long as nothing has to be waited
 * for, the request is sent before {@link start} returns; one timer serves all deadlines.
 */
export class CallRun {
  private readonly parts: UpstreamParts;
  private readonly call: UpstreamCall;
  private readonly settle: Settle<UpstreamAnswer>;
  private readonly startedAt: Instant;
  private readonly deadline: Instant;
  private readonly fields: Fields;
  private readonly side: SideAttempt;
  private readonly running: Attempt[] = [];
  private tried: UpstreamNode[] = [];
  /** Attempts that count against `retry.attempts`: all but hedges. */
  private attempts = 0;
  private retryAt: Instant = Infinity;
  private lastFailure: Reading | undefined;
  private cancelTimer: CancelTimer | undefined;
  private hasPlace = false;
  private isExpiring = false;
  private isSettled = false;

  constructor(parts: UpstreamParts, call: UpstreamCall, settle: Settle<UpstreamAnswer>) {
    this.parts = parts;
    this.call = call;
    this.settle = settle;
    this.startedAt = parts.clock.now();
    this.deadline = Math.min(call.deadline, this.startedAt + parts.config.timeout);
    this.fields = requestFields(call.fields, parts.credentials?.fieldName);
    this.side = new SideAttempt(parts, call, (kind) => this.authorize(kind));
  }

  /** Begins; the answer or error comes through `settle`. */
  start(): void {
    const { signal, priority } = this.call;
    if (signal?.aborted === true) return this.fail(clientGone());
    signal?.addEventListener("abort", this.onAbort, { once: true });
    if (this.deadline <= this.startedAt) return this.fail(answerTimeout(this.parts.config.name).error);
    try {
      const { breaker } = this.parts;
      const admitted = admit(this.parts, { priority, deadline: this.deadline, signal, breaker });
      if (admitted === undefined) this.onAdmitted();
      else admitted.then(this.onAdmitted, this.onRefused);
    } catch (error) {
      this.fail(error);
    }
  }

  private readonly onAbort = (): void => this.fail(clientGone());
  private readonly onRefused = (error: unknown): void => this.fail(error);

  private readonly onAdmitted = (): void => {
    if (this.isSettled) {
      this.parts.concurrency.leave();
      return;
    }
    this.hasPlace = true;
    this.parts.retries.earn();
    this.parts.hedges.earn();
    this.attempts = 1;
    this.pay("first");
  };

  /** Takes a call out of `rateLimit`; it is there at once as a rule. */
  private pay(kind: AttemptKind): void {
    const { operation, priority, signal } = this.call;
    const paid = this.parts.rateLimit?.take({ operation, priority, deadline: this.deadline, signal });
    if (paid === undefined) return this.authorize(kind);
    this.arm();
    paid.then(() => this.authorize(kind), this.onUnpaid);
  }

  private readonly onUnpaid = (error: unknown): void => {
    if (this.isSettled) return;
    this.parts.observer.refused(this.parts.config.name, "rate-limit");
    this.giveUp(error);
  };

  private authorize(kind: AttemptKind): void {
    const { credentials } = this.parts;
    if (credentials === undefined) return this.send(kind, this.fields);
    const fields = credentials.fields({ deadline: this.deadline, signal: this.call.signal });
    if (!(fields instanceof Promise)) return this.send(kind, [...this.fields, ...fields]);
    this.arm();
    fields.then(
      (each) => this.send(kind, [...this.fields, ...each]),
      (error: unknown) => this.giveUp(error),
    );
  }

  private send(kind: AttemptKind, fields: Fields): void {
    if (this.isSettled) return;
    const { parts, call } = this;
    const now = parts.clock.now();
    if (parts.nodes.disabledBecause !== undefined) return this.giveUp(parts.nodes.whyNone());
    let node = parts.choice.choose(now, this.tried, call.walk);
    if (kind === "first" || kind === "retry") node ??= parts.choice.choose(now, [], call.walk);
    if (node === undefined) return this.giveUp(parts.nodes.whyNone());
    this.tried.push(node);
    // A sole node may use all of the time.
    const isSole = !parts.choice.hasOther(Infinity, [node]);
    const attempt = new Attempt(parts, {
      kind,
      node,
      call,
      fields,
      isConditional: isConditional(call.fields),
      deadline: isSole ? this.deadline : Math.min(this.deadline, now + parts.config.attemptTimeout),
      onEnd: this.onEnd,
    });
    if (!isSole && call.priority !== "walker") this.side.plan(attempt, this.deadline);
    this.running.push(attempt);
    attempt.send();
    this.arm();
  }

  /** The next attempt cannot be made: what is known so far is the answer, if no other attempt runs. */
  private giveUp(error: unknown): void {
    if (this.isSettled || this.running.length > 0) return;
    if (this.lastFailure === undefined) this.fail(error);
    else this.conclude(this.lastFailure);
  }

  private readonly onEnd = (attempt: Attempt, reading: Reading): void => {
    this.running.splice(this.running.indexOf(attempt), 1);
    const { failure } = reading;
    if (failure !== undefined && consequences[failure.reason].elsewhere) {
      this.lastFailure = reading;
      // Another attempt that runs may still bring an answer.
      if (this.running.length === 0) this.fallOver(attempt.node, failure.reason);
      return;
    }
    if (attempt.kind === "hedge") this.parts.observer.hedge(this.parts.config.name, "won");
    this.conclude(reading);
  };

  private fallOver(node: UpstreamNode, reason: FailureReason): void {
    const { tried, attempts, deadline } = this;
    if (this.isExpiring) return this.conclude(this.lastFailure!);
    const plan = planRetry(this.parts, { node, reason, tried, attempts, deadline, call: this.call });
    if (plan === undefined) return this.conclude(this.lastFailure!);
    this.parts.observer.retry(this.parts.config.name, reason);
    this.attempts += 1;
    this.tried = [...plan.avoid];
    this.retryAt = plan.at;
    this.side.cancelHedge();
    this.arm();
  }

  private arm(): void {
    if (this.isSettled) return;
    let due = Math.min(this.deadline, this.retryAt, this.side.due(this.running));
    for (const attempt of this.running) due = Math.min(due, attempt.due);
    this.cancelTimer?.();
    this.cancelTimer = this.parts.clock.after(due - this.parts.clock.now(), this.onDue);
  }

  // After the event loop was held up, timers run before answers are read that have arrived long since: those go first.
  private readonly onDue = (): void => void setImmediate(this.decide);

  private readonly decide = (): void => {
    if (this.isSettled) return;
    const now = this.parts.clock.now();
    if (now >= this.deadline) return this.expire();
    for (const attempt of this.running.slice()) {
      if (now >= attempt.deadline) attempt.expire();
      else if (attempt.noteLate(now)) this.rescue();
      if (this.isSettled) return;
    }
    this.side.check({ running: this.running, tried: this.tried }, now);
    if (now >= this.retryAt) {
      this.retryAt = Infinity;
      this.pay("retry");
    }
    this.arm();
  };

  private rescue(): void {
    if (
      this.attempts < this.parts.config.retry.attempts &&
      this.side.rescue({ running: this.running, tried: this.tried })
    )
      this.attempts += 1;
  }

  /** The deadline of the whole call passed. */
  private expire(): void {
    if (this.running.length === 0) return this.giveUp(answerTimeout(this.parts.config.name).error);
    // No retry after the deadline: the failure of the last attempt is the answer.
    this.isExpiring = true;
    for (const attempt of this.running.slice()) attempt.expire();
  }

  /** Ends with what came of the last attempt: an answer of the upstream's if there was one. */
  private conclude({ answer, failure }: Reading): void {
    if (this.isSettled) return;
    this.finish();
    this.remember(failure);
    if (answer === undefined) this.settle.reject(failure!.error);
    else this.settle.resolve(answer);
  }

  /** Ends with an error that says nothing about the upstream. */
  private fail(error: unknown): void {
    if (this.isSettled) return;
    this.finish();
    this.settle.reject(error);
  }

  /** What this call tells about others. */
  private remember(failure: Failure | undefined): void {
    const { breaker, hopeless, clock, nodes } = this.parts;
    const elapsed = clock.now() - this.startedAt;
    const digest = () => digestOf(this.call);
    breaker.report(failure?.reason, elapsed, digest);
    if (failure === undefined) return;
    const isTriedOut = this.attempts > 1 || nodes.all.length === 1;
    const isHasty = isTimeout(failure) && !breaker.isFairTrial(elapsed);
    if (isTriedOut && !isHasty && consequences[failure.reason].fault !== "node") hopeless.set(digest(), true);
  }

  private finish(): void {
    const { signal } = this.call;
    this.isSettled = true;
    this.cancelTimer?.();
    signal?.removeEventListener("abort", this.onAbort);
    for (const attempt of this.running.splice(0)) attempt.cancel(signal?.aborted !== true);
    this.side.end();
    if (this.hasPlace) this.parts.concurrency.leave();
    this.hasPlace = false;
  }
}
