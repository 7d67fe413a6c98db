import { Readable } from "node:stream";
import { CollectedBody } from "../../bodies/collected-body.ts";
import type { HeldBody } from "../../bodies/held-bodies.ts";
import { endToEndFields, type Fields, fieldsOfDecodedBody } from "../../fields.ts";
import type { StreamedAnswer } from "../call.ts";
import { type Failure, tooManyAnswers } from "../failure.ts";
import { decodeWhole, findBusy, type ReadingContext, refusedAnswer, refuseHead } from "../wire/answer.ts";
import { connectionFailure } from "../wire/connection-failure.ts";
import { isDecoded } from "../wire/content-coding.ts";
import { withOwnMembers } from "../wire/member-fields.ts";
import type { AnswerListener, WireRequest } from "../wire/request.ts";

/** Of an answer, as the client gets it. */
type StreamedHead = Pick<StreamedAnswer, "status" | "fields" | "setsCookie">;

/** Is notified of how an answer comes. */
export interface StreamListener {
  /** What the head says counts at once, its end later; `busy`: it says that the registry is. */
  head(busy: Failure | undefined, fields: Fields): void;
  /** The client can have this answer, of which more may come. */
  ready(answer: StreamedHead & Pick<StreamedAnswer, "body">): void;
  /** The node sent something, or the client caught up. */
  progressed(): void;
  /** `isComplete`: all of the answer is on its way to the client; `failure` is then as in {@link head}. */
  ended(failure: Failure | undefined, isComplete: boolean): void;
  /** Nobody reads it any more. */
  left(error: Error): void;
}

const LEFT = new Error("the client reads no more of the answer");

/**
 * Passes an answer on as it comes, no faster than the client reads it. One that is coded, though it was asked not to be, is
 * passed on when all of it is here and was decoded.
 */
export class StreamedAnswerReader implements AnswerListener {
  /** The node may have more, and whoever reads the answer is behind. */
  isHeldUp = false;
  private readonly context: ReadingContext;
  private readonly listener: StreamListener;
  /** What it takes of memory while it is kept, because it is coded. */
  private readonly held: HeldBody;
  private request: WireRequest | undefined;
  /** What came in this turn: it goes on in one piece. Of an answer that is coded, all that came. */
  private piece: CollectedBody;
  private isPassingOn = false;
  /** As the client gets it. */
  private body: Readable | undefined;
  /** Of an answer that is coded: what the client gets, and what the node sent. */
  private coded: { readonly head: StreamedHead; readonly fields: Fields } | undefined;
  /** Of an answer that is passed on and says that the registry is busy. */
  private busy: Failure | undefined;

  constructor(context: ReadingContext, listener: StreamListener, held: HeldBody) {
    this.context = context;
    this.listener = listener;
    this.held = held;
    this.piece = new CollectedBody(context.maxBody);
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
    const head = { status, fields: passed, setsCookie: fields.includes("set-cookie") };
    if (!isCoded) return void this.handOver(head);
    this.coded = { head, fields };
    this.piece = new CollectedBody(context.maxBody, { onHeld: this.held.note });
  }

  onData(chunk: Buffer): void {
    this.listener.progressed();
    const fault = this.piece.add(chunk);
    if (fault !== undefined) return this.listener.ended(refusedAnswer(fault, this.context), false);
    if (this.isPassingOn || this.coded !== undefined) return;
    this.isPassingOn = true;
    queueMicrotask(() => this.passOn());
  }

  onComplete(): void {
    if (this.coded !== undefined) return void this.passOnDecoded(this.coded);
    this.passOn();
    this.body!.push(null);
    this.listener.ended(this.busy, true);
  }

  onFailure(error: unknown): void {
    const hasBegun = this.request!.status !== undefined;
    this.listener.ended(connectionFailure(this.context.upstream, error, hasBegun), false);
  }

  /** Nothing more is wanted of the answer; what was passed on of it breaks with `reason`. */
  abort(reason: Error | undefined): void {
    if (reason !== undefined) this.body?.destroy(reason);
  }

  private passOn(): void {
    this.isPassingOn = false;
    if (this.piece.length === 0 || this.body!.destroyed || this.body!.push(this.piece.take())) return;
    this.isHeldUp = true;
    this.request!.pause();
  }

  private async passOnDecoded({ head, fields }: { head: StreamedHead; fields: Fields }): Promise<void> {
    this.held.complete();
    const decoded = await decodeWhole(fields, this.piece.take(), this.context);
    if (!Buffer.isBuffer(decoded)) return this.listener.ended(decoded, false);
    this.held.note(decoded.length);
    if (this.held.isTooMuch()) return this.listener.ended(tooManyAnswers(), false);
    const body = this.handOver(head);
    body.push(decoded);
    body.push(null);
    this.listener.ended(this.busy, true);
  }

  /** The client has the answer from now on; its body may be still to come. */
  private handOver(head: StreamedHead): Readable {
    const body = new Readable({
      read: () => {
        if (this.isHeldUp) this.listener.progressed();
        this.isHeldUp = false;
        this.request!.resume();
      },
      destroy: (error, callback) => {
        this.request!.abort(error ?? LEFT);
        this.listener.left(error ?? LEFT);
        callback(error);
      },
    });
    // A reader learns of errors too; when nobody reads yet, they must not end the process.
    body.on("error", () => undefined);
    this.body = body;
    this.listener.ready({ ...head, body });
    return body;
  }
}
