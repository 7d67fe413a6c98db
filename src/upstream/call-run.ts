import type { CancelTimer, Duration, Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";
import { admit } from "./admission.ts";
import { retryAfter } from "./answer.ts";
import type { Reading } from "./answer.ts";
import { Attempt } from "./attempt.ts";
import type { AttemptKind } from "./attempt.ts";
import { ClientGone } from "./call.ts";
import type { UpstreamAnswer, UpstreamCall } from "./call.ts";
import { answerTimeout, consequences } from "./failure.ts";
import type { FailureReason } from "./failure.ts";
import type { UpstreamNode } from "./node.ts";
import type { UpstreamParts } from "./parts.ts";
import { isConditional, requestFields } from "./request-fields.ts";
import { planRetry } from "./retry-plan.ts";

/** A call that takes longer than usual is not called late before this. */
const LEAST_LATE: Duration = 750;
/** And not before it took so many times as long as is slow for its operation. */
const LATE_FACTOR = 3;
const LONGEST_PAUSE_ASKED: Duration = 60_000;

/**
 * One call from its admission to its answer: attempts on one node after the other, a hedge or a rescue beside a slow
 * one, one deadline over all. The first usable answer wins and ends the others.
 */
export class CallRun {
  private readonly parts: UpstreamParts;
  private readonly call: UpstreamCall;
  private readonly resolve: (answer: UpstreamAnswer) => void;
  private readonly reject: (error: unknown) => void;
  private readonly startedAt: Instant;
  private readonly deadline: Instant;
  private readonly fields: Fields;
  private readonly running: Attempt[] = [];
  private tried: UpstreamNode[] = [];
  /** Attempts that count against `retry.attempts`: all but hedges. */
  private attempts = 0;
  private places = 0;
  private hedgeAt: Instant = Infinity;
  private retryAt: Instant = Infinity;
  private lastFailure: Reading | undefined;
  private cancelTimer: CancelTimer | undefined;
  private isSettled = false;
  private isParallelPending = false;

  constructor(
    parts: UpstreamParts,
    call: UpstreamCall,
    settle: { resolve: (answer: UpstreamAnswer) => void; reject: (error: unknown) => void },
  ) {
    this.parts = parts;
    this.call = call;
    this.resolve = settle.resolve;
    this.reject = settle.reject;
    this.startedAt = parts.clock.now();
    this.deadline = Math.min(call.deadline, this.startedAt + parts.config.timeout);
    this.fields = requestFields(call.fields, parts.credentials?.fieldName);
  }

  /** Begins; the answer or error comes through `settle`. */
  start(): void {
    const { signal, priority } = this.call;
    if (signal?.aborted === true) return this.fail(new ClientGone());
    signal?.addEventListener("abort", this.onAbort, { once: true });
    if (this.deadline <= this.startedAt) return this.fail(answerTimeout(this.parts.config.name).error);
    try {
      const admitted = admit(this.parts, { priority, deadline: this.deadline, signal });
      if (admitted === undefined) this.onAdmitted();
      else admitted.then(this.onAdmitted, this.onRefused);
    } catch (error) {
      this.onRefused(error);
    }
  }

  private readonly onAbort = (): void => this.fail(new ClientGone());
  private readonly onRefused = (error: unknown): void => this.fail(error);

  private readonly onAdmitted = (): void => {
    this.places = 1;
    if (this.isSettled) {
      this.parts.breaker.forget();
      this.leave();
      return;
    }
    this.parts.retries.earn();
    this.parts.hedges.earn();
    this.attempts = 1;
    this.prepare("first");
  };

  /** Pays for an attempt and fetches its credentials; both are there at once as a rule. */
  private prepare(kind: AttemptKind): void {
    const { operation, priority, signal } = this.call;
    const paid = this.parts.egress?.take({ operation, priority, deadline: this.deadline, signal });
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

  /** The next attempt cannot be made: what is known so far is the answer, if no other attempt runs. */
  private giveUp(error: unknown): void {
    if (this.isSettled || this.running.length > 0) return;
    if (this.lastFailure === undefined) this.fail(error);
    else this.settleFailure(this.lastFailure);
  }

  private send(kind: AttemptKind, fields: Fields): void {
    this.isParallelPending = false;
    if (this.isSettled) return;
    const { parts, call } = this;
    const now = parts.clock.now();
    let node = parts.choice.choose(now, this.tried, call.walk);
    if (kind === "first" || kind === "retry") node ??= parts.choice.choose(now, [], call.walk);
    if (node === undefined) return this.giveUp(answerTimeout(parts.config.name).error);
    this.tried.push(node);
    const hasOther = parts.choice.hasOther(Infinity, [node]);
    const attempt = new Attempt(parts, {
      kind,
      node,
      call,
      fields,
      isConditional: isConditional(call.fields),
      // A sole node may use all of the time.
      deadline: hasOther ? Math.min(this.deadline, now + parts.config.attemptTimeout) : this.deadline,
      onEnd: this.onEnd,
    });
    this.running.push(attempt);
    if (hasOther && call.priority !== "walker") this.planParallel(attempt, now);
    attempt.send();
    this.arm();
  }

  /** When another node is asked beside this one. */
  private planParallel(attempt: Attempt, now: Instant): void {
    const { config, latencies } = this.parts;
    const slow = latencies.slow(this.call.operation);
    const late = Math.max(LEAST_LATE, LATE_FACTOR * (slow ?? 0));
    if (late < config.attemptTimeout) attempt.lateAt = now + late;
    attempt.rescueAt = Math.min(attempt.lateAt, now + (this.deadline - now) / 2);
    const isUrgent = this.call.priority === "post" || this.call.priority === "miss";
    if (attempt.kind === "first" && slow !== undefined && config.hedge.enabled && isUrgent) this.hedgeAt = now + slow;
  }

  private readonly onEnd = (attempt: Attempt, reading: Reading): void => {
    this.running.splice(this.running.indexOf(attempt), 1);
    const { answer, failure } = reading;
    if (failure !== undefined) {
      this.heed(attempt, failure.reason, answer);
      if (consequences[failure.reason].elsewhere) {
        this.lastFailure = reading;
        return this.fallOver(attempt.node, failure.reason);
      }
    }
    if (attempt.kind === "hedge") this.parts.observer.hedge(this.parts.config.name, "won");
    if (answer === undefined) this.settleFailure(reading);
    else this.succeed(answer);
  };

  /** Does what the answer asks for. */
  private heed(attempt: Attempt, reason: FailureReason, answer: UpstreamAnswer | undefined): void {
    const { credentials, egress, clock } = this.parts;
    if (reason === "credentials") credentials?.distrust();
    if (answer === undefined) return;
    const asked = retryAfter(answer.fields);
    if (reason === "http-429") egress?.shrink(this.call.operation, asked);
    const seconds = asked ?? (reason === "http-429" ? 1 : 0);
    attempt.node.pausedUntil = clock.now() + Math.min(seconds * 1_000, LONGEST_PAUSE_ASKED);
  }

  private fallOver(node: UpstreamNode, reason: FailureReason): void {
    // Another attempt that runs may still bring an answer.
    if (this.running.length > 0 || this.isSettled) return;
    const plan = planRetry(this.parts, {
      node,
      reason,
      tried: this.tried,
      attempts: this.attempts,
      deadline: this.deadline,
    });
    if (plan === undefined) return this.settleFailure(this.lastFailure!);
    this.parts.observer.retry(this.parts.config.name, reason);
    this.attempts += 1;
    this.tried = [...plan.avoid];
    this.retryAt = plan.at;
    this.hedgeAt = Infinity;
    this.arm();
  }

  private arm(): void {
    if (this.isSettled) return;
    let due = Math.min(this.deadline, this.retryAt);
    if (this.running.length === 1 && this.hedgeAt < due) due = this.hedgeAt;
    for (const attempt of this.running) due = Math.min(due, attempt.deadline, attempt.lateAt, attempt.rescueAt);
    this.cancelTimer?.();
    this.cancelTimer = this.parts.clock.after(due - this.parts.clock.now(), this.onTimer);
  }

  private readonly onTimer = (): void => {
    const now = this.parts.clock.now();
    if (now >= this.deadline) return this.expire();
    for (const attempt of this.running.slice()) {
      if (now >= attempt.deadline) attempt.expire();
      else this.noteLate(attempt, now);
      if (this.isSettled) return;
    }
    if (now >= this.hedgeAt) this.hedge();
    if (now >= this.retryAt) {
      this.retryAt = Infinity;
      this.prepare("retry");
    }
    this.arm();
  };

  private noteLate(attempt: Attempt, now: Instant): void {
    const { nodes } = this.parts;
    if (now >= attempt.lateAt) {
      attempt.lateAt = Infinity;
      const why = attempt.node.recordLate();
      // When no other node answers either, it is not this one's fault.
      const othersAnswer = nodes.all.some((node) => node !== attempt.node && node.lastGoodAt > attempt.startedAt);
      if (othersAnswer && why === undefined) nodes.suspect(attempt.node);
      else if (othersAnswer) nodes.eject(attempt.node, why!);
    }
    if (now >= attempt.rescueAt) {
      attempt.rescueAt = Infinity;
      this.rescue();
    }
  }

  private canRunParallel(): boolean {
    if (this.running.length !== 1 || this.isParallelPending) return false;
    return this.parts.choice.hasOther(this.parts.clock.now(), this.tried);
  }

  private hedge(): void {
    this.hedgeAt = Infinity;
    if (!this.canRunParallel() || !this.takePlace()) return;
    const { hedges, observer, config } = this.parts;
    if (!hedges.spend()) return observer.hedge(config.name, "refused");
    observer.hedge(config.name, "started");
    this.startParallel("hedge");
  }

  private rescue(): void {
    const { retries, observer, config } = this.parts;
    if (this.attempts >= config.retry.attempts || !this.canRunParallel() || !this.takePlace()) return;
    if (!retries.spend()) return observer.retryBudgetExhausted(config.name);
    observer.retry(config.name, "timeout");
    this.attempts += 1;
    this.startParallel("rescue");
  }

  /** A place for a second attempt, if that takes none from another call; given back at the end of this call. */
  private takePlace(): boolean {
    if (this.places > 1) return true;
    if (!this.parts.bulkhead.tryEnter()) return false;
    this.places += 1;
    return true;
  }

  /** Asks another node as well, unless the calls of `rateLimit` are needed for others. */
  private startParallel(kind: "hedge" | "rescue"): void {
    const paid = this.parts.egress?.tryTake(this.call.operation, "walker") ?? true;
    if (paid === true) return this.authorize(kind);
    if (paid === false) return;
    this.isParallelPending = true;
    void paid.then((isPaid) => {
      this.isParallelPending = false;
      if (isPaid && !this.isSettled && this.running.length === 1) this.authorize(kind);
    });
  }

  /** The deadline of the whole call passed. */
  private expire(): void {
    const [attempt] = this.running;
    if (attempt !== undefined) {
      // No retry after the deadline: what is reported last is the answer.
      this.attempts = Infinity;
      for (const each of this.running.slice()) each.expire();
    } else {
      this.giveUp(answerTimeout(this.parts.config.name).error);
    }
  }

  private succeed(answer: UpstreamAnswer): void {
    if (this.isSettled) return;
    this.finish();
    this.parts.breaker.record(true);
    this.resolve(answer);
  }

  /** The failure of the last attempt is the call's: an answer of the upstream's if there was one. */
  private settleFailure({ answer, failure }: Reading): void {
    if (this.isSettled) return;
    this.finish();
    if (failure !== undefined && consequences[failure.reason].unhealthy) this.reportFailure(failure.reason);
    else if (failure?.reason === "http-429") this.parts.breaker.forget();
    else this.parts.breaker.record(true);
    if (answer === undefined) this.reject(failure!.error);
    else this.resolve(answer);
  }

  private reportFailure(reason: FailureReason): void {
    const isTimeout = reason === "timeout" || reason === "connect-timeout";
    const { clock, config } = this.parts;
    const hadTime = clock.now() - this.startedAt >= config.attemptTimeout * 0.9;
    if (isTimeout && !hadTime) this.parts.breaker.forget();
    else this.parts.breaker.record(false);
  }

  /** Ends with an error that says nothing about the upstream. */
  private fail(error: unknown): void {
    if (this.isSettled) return;
    const wasAdmitted = this.places > 0;
    this.finish();
    if (wasAdmitted) this.parts.breaker.forget();
    this.reject(error);
  }

  private finish(): void {
    this.isSettled = true;
    this.cancelTimer?.();
    this.call.signal?.removeEventListener("abort", this.onAbort);
    const isOutrun = this.call.signal?.aborted !== true;
    for (const attempt of this.running.splice(0)) {
      if (attempt.kind === "hedge" && isOutrun) this.parts.observer.hedge(this.parts.config.name, "lost");
      attempt.cancel(isOutrun);
    }
    this.leave();
  }

  private leave(): void {
    for (; this.places > 0; this.places -= 1) this.parts.bulkhead.leave();
  }
}
