import type { Instant } from "../../clock.ts";
import type { Fields } from "../../fields.ts";
import { clientGone, GatewayError, isClientGone } from "../../errors.ts";
import type { UpstreamAnswer, UpstreamCall } from "../call.ts";
import { answerTimeout, consequences } from "../failure.ts";
import type { UpstreamNode } from "../nodes/node.ts";
import type { AttemptKind, CallOutcome } from "../observer.ts";
import type { UpstreamParts } from "../parts.ts";
import type { Reading } from "../wire/answer.ts";
import { AwaitedAnswer } from "../wire/awaited-answer.ts";
import type { Exchange } from "../wire/in-step.ts";
import { Admission } from "./admission.ts";
import { compareWithCall, isOfAnother, readOutcome } from "./answer.ts";
import { Attempt, chooseNode } from "./attempt.ts";
import { type Moment, momentsOf, payForBeside, planRetry, type RetryPlan } from "./further-attempts.ts";
import {
  endOutrun,
  hasFailedEverywhere,
  noteLate,
  obeyRefusal,
  outcomeOfAnswer,
  outcomeOfError,
  recordOutcome,
  reportCall,
} from "./outcome.ts";

/**
 * One call whose answer is kept until it is complete: it is let in, asks a node, asks another when that one fails or is
 * slow, and ends with the first usable answer. One deadline is over all.
 *
 * @throws GatewayError 429, 502, 503 or 504; clientGone when `signal` aborts
 */
export async function runCall(parts: UpstreamParts, call: UpstreamCall): Promise<UpstreamAnswer> {
  const { clock, config, breaker, observer } = parts;
  const startedAt = clock.now();
  const run = new CallRun(parts, call, Math.min(call.deadline, startedAt + config.timeout));
  let outcome: CallOutcome | undefined;
  try {
    if (call.signal?.aborted === true) throw clientGone();
    if (run.deadline <= startedAt) throw answerTimeout(config.name).error;
    await run.enter();
    const { answer, failure } = await run.ask();
    run.endOthers();
    reportCall({ parts, call, breaker, isExhausted: run.isExhausted }, failure, clock.now() - startedAt);
    if (answer === undefined) throw failure!.error;
    outcome = outcomeOfAnswer(answer.status);
    return answer;
  } catch (error) {
    // A client in a hurry says nothing about the registry.
    const isHasty = error instanceof GatewayError && error.status === 504;
    if (!isHasty || breaker.isFairTrial(clock.now() - startedAt)) outcome = outcomeOfError(error);
    throw error;
  } finally {
    run.leave();
    if (outcome !== undefined) observer.called(config.name, call.operation, outcome);
  }
}

/** An attempt that is over, but for its record. */
interface Ended {
  readonly attempt: Attempt;
  readonly reading: Reading;
}

/** Where an answer came from that is another request's. */
interface Stray {
  readonly exchange: Exchange;
  /** It is a 404, which may be the registry's way to say it: clients choose ids. */
  readonly notFound: UpstreamAnswer | undefined;
}

/** What a call knows and holds while it runs. */
class CallRun {
  readonly deadline: Instant;
  private readonly parts: UpstreamParts;
  private readonly call: UpstreamCall;
  private readonly admission: Admission;
  private readonly running: Attempt[] = [];
  /** Those that ended and were not looked at yet. */
  private readonly ended: Ended[] = [];
  private tried: UpstreamNode[] = [];
  /** Attempts that count against `retry.attempts`: all but hedges. */
  private counted = 0;
  /** One beside another waits for its call of `rateLimit`, or for credentials. */
  private isStartingBeside = false;
  private readonly strayed: Stray[] = [];
  /** Ends the wait that is going on. */
  private wake: (isDue?: boolean) => void = ignore;

  constructor(parts: UpstreamParts, call: UpstreamCall, deadline: Instant) {
    this.parts = parts;
    this.call = call;
    this.deadline = deadline;
    this.admission = new Admission(parts, parts.breaker);
  }

  /** The request was tried more than once, or there was nothing else to try. */
  get isExhausted(): boolean {
    return this.counted > 1 || this.parts.nodes.all.length === 1;
  }

  /** Waits until the call may begin. */
  async enter(): Promise<void> {
    const { priority, signal } = this.call;
    await this.admission.enter({ priority, deadline: this.deadline, signal });
    this.parts.retries.earn();
    this.parts.hedges.earn();
    signal?.addEventListener("abort", this.onAbort);
  }

  /** The first usable answer, or what the last attempt failed with. */
  async ask(): Promise<Reading> {
    let failed: Reading | undefined;
    for (;;) {
      try {
        await this.begin(failed === undefined ? "first" : "retry");
      } catch (error) {
        // The next attempt cannot be made: what is known so far is the answer.
        if (failed === undefined || isClientGone(error)) throw error;
        return this.giveUp(failed);
      }
      const { attempt, reading } = await this.firstUsable();
      if (!isWorthAnother(reading)) return this.accept(attempt, reading);
      const plan = this.plan(attempt, reading);
      if (plan === undefined) return this.giveUp(reading);
      failed = reading;
      while (this.parts.clock.now() < plan.at) await this.wait(plan.at);
    }
  }

  /** Ends attempts beside the one whose answer is used. */
  endOthers(): void {
    for (const attempt of this.running.splice(0)) endOutrun(attempt);
  }

  /** Ends whatever runs, and gives back what the call holds. */
  leave(): void {
    this.call.signal?.removeEventListener("abort", this.onAbort);
    for (const attempt of this.running.splice(0)) {
      attempt.close();
      attempt.observe("cancelled");
    }
    this.forgetStrays();
    this.admission.leave();
  }

  private async begin(kind: "first" | "retry"): Promise<void> {
    this.counted += 1;
    this.send(kind, false, await this.admission.pay(this.call, this.deadline));
  }

  /** Waits for one of the attempts that run to bring an answer, or for the last of them to fail. */
  private async firstUsable(): Promise<Ended> {
    for (;;) {
      const ended = this.ended.shift();
      if (ended === undefined) {
        const due = Math.min(this.deadline, ...this.running.map((each) => each.due));
        if (await this.wait(due)) this.decide(this.parts.clock.now());
      } else if (!ended.attempt.isOver) {
        const { attempt } = ended;
        const reading = this.end(ended);
        // Another attempt that runs may still bring an answer.
        if (this.running.length === 0 || !isWorthAnother(reading)) return { attempt, reading };
      }
    }
  }

  /** Does what is due: ends those whose time is up, begins another beside one that is slow. */
  private decide(now: Instant): void {
    for (const attempt of this.running) {
      if (now >= Math.min(attempt.deadline, this.deadline)) {
        this.ended.push({ attempt, reading: { answer: undefined, failure: attempt.timeout } });
        continue;
      }
      while ((attempt.moments[0]?.at ?? Infinity) <= now) this.decideBeside(attempt, attempt.moments.shift()!, now);
    }
  }

  /** Does what is due about one that has not ended: where another may run beside it and is paid for, that begins. */
  private decideBeside(attempt: Attempt, { what }: Moment, now: Instant): void {
    const { parts, call } = this;
    if (what === "late") return noteLate(attempt);
    if (this.running.length > 1 || this.isStartingBeside || !parts.choice.hasOtherBeside(now, this.tried)) return;
    const isSpent = this.counted >= parts.config.retry.attempts || hasFailedEverywhere(parts, "timeout", call);
    if (what === "retry" && isSpent) return;
    if (!this.admission.tryEnterBeside() || !payForBeside(parts, what)) return;
    if (what === "retry") this.counted += 1;
    void this.beginBeside(what);
  }

  /** Begins another beside the one that runs, if no other call waits for one of `rateLimit`. */
  private async beginBeside(kind: "hedge" | "retry"): Promise<void> {
    const { parts, call, deadline } = this;
    this.isStartingBeside = true;
    try {
      const credentials = await parts.credentials?.fields({ deadline, signal: call.signal });
      const isPaid = (await parts.rateLimit?.tryTake(call.operation, "background")) ?? true;
      if (isPaid && !this.admission.hasLeft && this.running.length === 1) this.send(kind, true, credentials);
    } catch {
      // The one that runs goes on alone.
    }
    this.isStartingBeside = false;
    this.wake();
  }

  /** Sends the request to the node that is likely to answer soonest. */
  private send(kind: AttemptKind, isBeside: boolean, credentials: Fields | undefined): void {
    const { parts, call, deadline, tried } = this;
    const { clock, choice, config, limits } = parts;
    if (this.admission.hasLeft) return;
    this.throwIfGone();
    const node = chooseNode(parts, { tried, pagination: call.pagination, isBeside, poll: call.poll });
    tried.push(node);
    const now = clock.now();
    const { attemptTimeout, hedge, name: upstream } = config;
    // A sole node may use all of the time.
    const isSole = !choice.hasOther(Infinity, [node]);
    const { responseBody: maxBody } = limits;
    const held = parts.answers.begin({ largest: maxBody, giveUp: () => answer.giveUp() });
    const answer = new AwaitedAnswer(
      { clock, upstream, maxBody, requestedAt: now, held },
      (outcome) => void readOutcome(attempt, outcome).then((reading) => this.noteEnd(attempt, reading)),
    );
    const attempt = new Attempt(
      parts,
      call,
      {
        kind,
        isBeside,
        node,
        startedAt: now,
        deadline: isSole ? deadline : Math.min(deadline, now + attemptTimeout),
        credentials,
        body: call.body,
        wantsUnused: this.strayed.length > 0,
        held,
      },
      answer,
    );
    if (!isSole && call.priority !== "background" && call.poll === undefined) {
      const mayHedge = kind === "first" && hedge.enabled && (call.priority === "post" || call.priority === "miss");
      const slow = parts.latencies.slow(call.operation);
      attempt.moments = momentsOf({ now, deadline, attemptTimeout, slow, mayHedge });
    }
    this.running.push(attempt);
    attempt.send();
  }

  private noteEnd(attempt: Attempt, reading: Reading): void {
    this.ended.push({ attempt, reading });
    this.wake();
  }

  /** Enters what an attempt ended with in the records. */
  private end({ attempt, reading }: Ended): Reading {
    const compared = compareWithCall(attempt, reading);
    const { answer, failure } = compared;
    this.running.splice(this.running.indexOf(attempt), 1);
    attempt.close(failure?.error);
    recordOutcome(attempt, failure, answer?.fields);
    if (failure !== undefined) obeyRefusal(attempt, failure, answer?.fields);
    attempt.observeEnd(failure);
    const { exchange } = attempt.request;
    if (failure?.reason === "out-of-step" && exchange !== undefined) {
      this.strayed.push({ exchange, notFound: compared.answer });
    }
    return compared;
  }

  private accept(attempt: Attempt, reading: Reading): Reading {
    if (attempt.kind === "hedge") this.parts.observer.hedge(this.parts.config.name, "won");
    const { answer } = reading;
    for (const { exchange, notFound } of this.strayed.splice(0)) {
      // The same request has its own answer elsewhere: the first one was another's.
      if (notFound === undefined || (answer !== undefined && answer.status < 400)) exchange.leaveStep("another");
      // It is worded so over a new connection too, or nothing is known: registries word a 404 in several ways.
      else if (!isOfAnother(this.call, reading, exchange)) exchange.forgetAll();
    }
    return reading;
  }

  private giveUp(reading: Reading): Reading {
    const notFound = this.strayed[0]?.notFound;
    this.forgetStrays();
    // No other answer can be had.
    return { ...reading, answer: reading.answer ?? notFound };
  }

  /** Nothing more will be known of the answers that were another request's, or may have been. */
  private forgetStrays(): void {
    const isSole = this.strayed.length === 1;
    for (const { exchange, notFound } of this.strayed.splice(0)) {
      // A registry that answers so over a new connection too has a way of its own: clients choose what they ask for.
      if (notFound !== undefined || isSole) exchange.forgetAll();
    }
  }

  /** When to try again, paid for; undefined when the failure is the answer. */
  private plan({ node }: Attempt, reading: Reading): RetryPlan | undefined {
    const { parts, tried } = this;
    const { reason } = reading.failure!;
    const { choice, nodes, observer, config } = parts;
    const now = parts.clock.now();
    const others = choice.hasOther(Infinity, [node]) ? nodes.all.filter((each) => each !== node && each.isOpen) : [];
    const plan = planRetry(
      {
        reason,
        attempts: this.counted,
        most: this.call.poll === undefined ? config.retry.attempts : 1,
        deadline: this.deadline,
        hasFailedEverywhere: hasFailedEverywhere(parts, reason, this.call),
        hasUntried: choice.hasOther(now, tried),
        othersFreeAt: others.length === 0 ? undefined : Math.min(...others.map(({ pausedUntil }) => pausedUntil)),
        random: parts.random(),
      },
      now,
    );
    if (plan === undefined || !parts.retries.spend()) {
      if (plan !== undefined) observer.retryBudgetExhausted(config.name);
      return undefined;
    }
    observer.retry(config.name, reason);
    // Another node may word a 404 in another way.
    if (reason === "out-of-step" && reading.answer !== undefined)
      this.tried = nodes.all.filter((each) => each !== node);
    else this.tried = plan.avoid === "tried" ? tried : plan.avoid === "last" ? [node] : [];
    return plan;
  }

  /** Waits until `until`, or until something happens before. Returns which of the two. */
  private async wait(until: Instant): Promise<boolean> {
    const { clock } = this.parts;
    this.throwIfGone();
    const isDue = await new Promise<boolean>((resolve) => {
      const wake = (isTime = false): void => {
        if (this.wake !== wake) return;
        this.wake = ignore;
        cancelTimer();
        resolve(isTime);
      };
      // After the event loop was held up, timers run before answers are read that have arrived long since.
      const cancelTimer = clock.after(until - clock.now(), () => setImmediate(wake, true));
      this.wake = wake;
    });
    this.throwIfGone();
    return isDue;
  }

  private throwIfGone(): void {
    if (this.call.signal?.aborted === true) throw clientGone();
  }

  private readonly onAbort = (): void => this.wake();
}

/** Whether another node may have an answer that a client has more of. */
function isWorthAnother({ failure }: Reading): boolean {
  return failure !== undefined && consequences[failure.reason].elsewhere;
}

function ignore(): void {}
