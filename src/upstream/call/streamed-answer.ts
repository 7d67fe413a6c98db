import { Readable } from "node:stream";
import { CollectedBody } from "../../bodies/collected-body.ts";
import { endToEndFields, type Fields, fieldsOfDecodedBody } from "../../fields.ts";
import type { StreamedAnswer } from "../call.ts";
import type { Failure } from "../failure.ts";
import { findBusy, refusedAnswer, refuseHead } from "../wire/answer.ts";
import { connectionFailure } from "../wire/connection-failure.ts";
import { isDecoded, shapeBody } from "../wire/content-coding.ts";
import { withOwnMembers } from "../wire/member-fields.ts";
import type { AnswerReader, Attempt } from "./attempt.ts";
import type { AnswerMode } from "./attempts.ts";

/** The answer is passed on as it comes. */
export const STREAMED: AnswerMode<StreamedAnswer> = {
  isStreamed: true,
  createReader: (attempt) => new StreamedAnswerReader(attempt),
};

const LEFT = new Error("the client reads no more of the answer");

/** Passes an answer on as it comes, no faster than the client reads it. */
class StreamedAnswerReader implements AnswerReader {
  isHeldUp = false;
  private readonly attempt: Attempt<StreamedAnswer>;
  /** What came in this turn: it goes on in one piece. */
  private readonly piece: CollectedBody;
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

  constructor(attempt: Attempt<StreamedAnswer>) {
    this.attempt = attempt;
    // The bound is on what is passed on, decoded.
    this.piece = new CollectedBody(Infinity);
  }

  onHead(status: number, fields: Fields): void {
    const { attempt } = this;
    const { context } = attempt;
    const decoded = isDecoded(status, fields) ? fieldsOfDecodedBody(fields) : fields;
    const passed = withOwnMembers(endToEndFields(decoded), status);
    const refusal = refuseHead({ status, fields, passed }, context);
    if (refusal !== undefined) return attempt.end({ answer: undefined, failure: refusal });
    this.busy = findBusy(status, passed, context.upstream);
    attempt.answering(this.busy, passed);
    this.source = this.createSource();
    this.output = shapeBody({ status, fields, body: this.source }, context, {
      ready: (body) => {
        this.isPassedOn = true;
        attempt.owner.answer({ status, fields: passed, body });
        if (this.isComplete) this.succeed();
      },
      refused: (failure) => attempt.end({ answer: undefined, failure }),
      ended: (error) => {
        // The client left, or the node broke off, which is known already.
        if (error && !attempt.isOver) attempt.owner.fail(error);
      },
    });
  }

  onData(chunk: Buffer): void {
    const { attempt } = this;
    attempt.progressed();
    const fault = this.piece.add(chunk);
    if (fault !== undefined) {
      return attempt.end({ answer: undefined, failure: refusedAnswer(fault, attempt.context) });
    }
    if (this.isPassingOn) return;
    this.isPassingOn = true;
    queueMicrotask(() => this.passOn());
  }

  onComplete(): void {
    this.isComplete = true;
    this.passOn();
    this.source!.push(null);
    if (this.isPassedOn) this.succeed();
  }

  onFailure(error: unknown): void {
    const failure = connectionFailure(this.attempt.parts.config.name, error, this.source !== undefined);
    this.attempt.end({ answer: undefined, failure });
  }

  abort(reason: Error | undefined): void {
    if (reason === undefined) return;
    this.source?.destroy(reason);
    this.output?.destroy(reason);
  }

  private passOn(): void {
    this.isPassingOn = false;
    if (this.piece.length === 0 || this.source!.destroyed || this.source!.push(this.piece.take())) return;
    this.isHeldUp = true;
    this.attempt.request.pause();
  }

  private succeed(): void {
    this.attempt.complete(this.busy);
  }

  private createSource(): Readable {
    const { attempt } = this;
    const source = new Readable({
      read: () => {
        if (this.isHeldUp) attempt.progressed();
        this.isHeldUp = false;
        attempt.request.resume();
      },
      destroy: (error, callback) => {
        attempt.request.abort(error ?? LEFT);
        callback(error);
      },
    });
    // Whoever reads hears of errors too; when nobody reads yet, they must not end the process.
    source.on("error", () => undefined);
    return source;
  }
}
