import { Readable } from "node:stream";
import { CollectedBody } from "../../bodies/collected-body.ts";
import { endToEndFields, type Fields, fieldsOfDecodedBody } from "../../fields.ts";
import type { StreamedAnswer } from "../call.ts";
import type { Failure } from "../failure.ts";
import { findBusy, type ReadingContext, refusedAnswer, refuseHead } from "../wire/answer.ts";
import { connectionFailure } from "../wire/connection-failure.ts";
import { isDecoded, shapeBody } from "../wire/content-coding.ts";
import { withOwnMembers } from "../wire/member-fields.ts";
import type { AnswerListener, WireRequest } from "../wire/request.ts";

/** Is notified of how an answer comes. */
export interface StreamListener {
  /** What the head says counts at once, its end later; `busy`: it says that the registry is. */
  head(busy: Failure | undefined, fields: Fields): void;
  /** The client can have this answer, of which more may come. */
  ready(answer: Omit<StreamedAnswer, "requestedAt" | "origin" | "mayBeCut">): void;
  /** The node sent something, or the client caught up. */
  progressed(): void;
  /** `isComplete`: all of the answer is on its way to the client; `failure` is then as in {@link head}. */
  ended(failure: Failure | undefined, isComplete: boolean): void;
  /** Nobody reads it any more. */
  left(error: Error): void;
}

const LEFT = new Error("the client reads no more of the answer");

/** Passes an answer on as it comes, no faster than the client reads it. */
export class StreamedAnswerReader implements AnswerListener {
  /** The node may have more, and whoever reads the answer is behind. */
  isHeldUp = false;
  private readonly context: ReadingContext;
  private readonly listener: StreamListener;
  private request: WireRequest | undefined;
  /** What came in this turn: it goes on in one piece. The bound is on what is passed on, decoded. */
  private readonly piece = new CollectedBody(Infinity);
  private isPassingOn = false;
  /** As the node sends it. */
  private source: Readable | undefined;
  /** As the client gets it: decoded and bounded. */
  private output: Readable | undefined;
  /** Of an answer that is passed on and says that the registry is busy. */
  private busy: Failure | undefined;
  /** The node has sent all of its answer. */
  private isComplete = false;
  /** The head of the answer was passed on: what it says of its coding is true as far as was looked. */
  private isPassedOn = false;

  constructor(context: ReadingContext, listener: StreamListener) {
    this.context = context;
    this.listener = listener;
  }

  /** The request whose answer this is. */
  follow(request: WireRequest): void {
    this.request = request;
  }

  onHead(status: number, fields: Fields): void {
    const { context, listener } = this;
    const isCoded = isDecoded(status, fields);
    const passed = withOwnMembers(endToEndFields(isCoded ? fieldsOfDecodedBody(fields) : fields), status);
    const refusal = refuseHead({ status, fields, passed }, context);
    if (refusal !== undefined) return listener.ended(refusal, false);
    this.busy = findBusy(status, passed, context.upstream);
    listener.head(this.busy, passed);
    this.source = this.createSource();
    this.output = shapeBody({ status, fields, body: this.source }, context, {
      ready: (body) => {
        this.isPassedOn = true;
        listener.ready({ status, fields: passed, body, setsCookie: fields.includes("set-cookie") });
        if (this.isComplete) listener.ended(this.busy, true);
      },
      refused: (failure) => listener.ended(failure, false),
      ended: (error) => {
        // The client left, or the node broke off, which is known already.
        if (error) listener.left(error);
      },
    });
  }

  onData(chunk: Buffer): void {
    this.listener.progressed();
    const fault = this.piece.add(chunk);
    if (fault !== undefined) return this.listener.ended(refusedAnswer(fault, this.context), false);
    if (this.isPassingOn) return;
    this.isPassingOn = true;
    queueMicrotask(() => this.passOn());
  }

  onComplete(): void {
    this.isComplete = true;
    this.passOn();
    this.source!.push(null);
    if (this.isPassedOn) this.listener.ended(this.busy, true);
  }

  onFailure(error: unknown): void {
    const failure = connectionFailure(this.context.upstream, error, this.source !== undefined);
    this.listener.ended(failure, false);
  }

  /** Nothing more is wanted of the answer; what was passed on of it breaks with `reason`. */
  abort(reason: Error | undefined): void {
    if (reason === undefined) return;
    this.source?.destroy(reason);
    this.output?.destroy(reason);
  }

  private passOn(): void {
    this.isPassingOn = false;
    if (this.piece.length === 0 || this.source!.destroyed || this.source!.push(this.piece.take())) return;
    this.isHeldUp = true;
    this.request!.pause();
  }

  private createSource(): Readable {
    const source = new Readable({
      read: () => {
        if (this.isHeldUp) this.listener.progressed();
        this.isHeldUp = false;
        this.request!.resume();
      },
      destroy: (error, callback) => {
        this.request!.abort(error ?? LEFT);
        callback(error);
      },
    });
    // A reader learns of errors too; when nobody reads yet, they must not end the process.
    source.on("error", () => undefined);
    return source;
  }
}
