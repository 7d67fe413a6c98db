import { AT_ONCE } from "../../bodies/body-reader.ts";
import { CollectedBody } from "../../bodies/collected-body.ts";
import type { AbortSignalLike, Clock, Instant } from "../../clock.ts";
import type { Fields } from "../../fields.ts";
import type { HeldBody } from "../../bodies/held-bodies.ts";
import { answerTimeout, type Failure, removed, tooManyAnswers } from "../failure.ts";
import { type RawAnswer, refusedAnswer, refuseTransferCoding } from "./answer.ts";
import { connectionFailure } from "./connection-failure.ts";
import { type AnswerListener, type ConnectionSource, type NodeRequest, WireRequest } from "./request.ts";

interface AwaitedOptions {
  readonly clock: Clock;
  /** For the texts of errors. */
  readonly upstream: string;
  /** Largest body, bytes. */
  readonly maxBody: number;
  readonly requestedAt: Instant;
  /** What it takes of memory, where that is counted: until its call is done with it. */
  readonly held?: HeldBody;
}

/** Large answers that are complete; no more than there are calls at once. */
const complete: (() => void)[] = [];

/**
 * Does what there is to do with large answers one in a turn of the event loop: to put one together takes some
 * milliseconds, and twenty may end in the same turn.
 */
function inTurn(finish: () => void): void {
  if (complete.push(finish) === 1) setImmediate(finishNext);
}

function finishNext(): void {
  const finish = complete.shift();
  if (complete.length > 0) setImmediate(finishNext);
  finish?.();
}

/**
 * Keeps an answer as it comes, if it does not grow too large, and hands it over, once, when all of it is here, or why it
 * does not come. Anybody who learns of a failure aborts the request.
 */
export class AwaitedAnswer implements AnswerListener {
  private readonly options: AwaitedOptions;
  private readonly settle: (outcome: RawAnswer | Failure) => void;
  private status = 0;
  private fields: Fields = [];
  private body: CollectedBody;
  private isOver = false;

  constructor(options: AwaitedOptions, settle: (outcome: RawAnswer | Failure) => void) {
    this.options = options;
    this.settle = settle;
    this.body = new CollectedBody(options.maxBody, { onHeld: options.held?.note });
  }

  onHead(status: number, fields: Fields): void {
    this.status = status;
    this.fields = fields;
    const { upstream, maxBody, held } = this.options;
    const refusal = refuseTransferCoding(fields, upstream);
    if (refusal !== undefined) return this.fail(refusal);
    const length = fields.indexOf("content-length");
    if (length === -1) return;
    const announced = Number(fields[length + 1]);
    if (announced > maxBody) this.fail(refusedAnswer("too-large", this.options));
    else this.body = new CollectedBody(maxBody, { announced, onHeld: held?.note });
  }

  onData(chunk: Buffer): void {
    if (this.isOver) return;
    const fault = this.body.add(chunk);
    if (fault !== undefined) this.fail(refusedAnswer(fault, this.options));
  }

  onComplete(): void {
    const receivedAt = this.options.clock.now();
    this.options.held?.complete();
    if (this.body.length > AT_ONCE) inTurn(() => this.finish(receivedAt));
    else this.finish(receivedAt);
  }

  onFailure(error: unknown): void {
    this.fail(connectionFailure(this.options.upstream, error, this.status !== 0));
  }

  /** Others need what it takes of memory. */
  giveUp(): void {
    this.options.held?.release();
    this.fail(tooManyAnswers());
  }

  private finish(receivedAt: Instant): void {
    if (this.isOver) return;
    this.isOver = true;
    const { status, fields } = this;
    this.settle({ status, fields, body: this.body.take(), requestedAt: this.options.requestedAt, receivedAt });
  }

  private fail(failure: Failure): void {
    if (this.isOver) return;
    this.isOver = true;
    this.settle(failure);
  }
}

interface FetchOptions extends Omit<AwaitedOptions, "requestedAt" | "held"> {
  readonly deadline: Instant;
  /** Aborts when the upstream is closed. */
  readonly signal?: AbortSignalLike | undefined;
}

/** The answer to one request that is no call: a check of a node, a token. Never rejects. */
export function fetchAnswer(
  source: ConnectionSource,
  request: NodeRequest,
  options: FetchOptions,
): Promise<RawAnswer | Failure> {
  const { clock, upstream, deadline, signal } = options;
  return new Promise((resolve) => {
    const requestedAt = clock.now();
    const settle = (outcome: RawAnswer | Failure): void => {
      cancelTimer();
      signal?.removeEventListener("abort", onAbort);
      wire.abort();
      resolve(outcome);
    };
    const onAbort = (): void => settle({ reason: "unproved", error: removed(upstream) });
    const cancelTimer = clock.after(deadline - requestedAt, () => settle(answerTimeout(upstream)));
    signal?.addEventListener("abort", onAbort);
    const wire = new WireRequest(source, request, new AwaitedAnswer({ ...options, requestedAt }, settle));
    wire.send();
  });
}
