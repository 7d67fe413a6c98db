import { type AnswerContent, readAnswerBody } from "../../bodies/answer.ts";
import { AT_ONCE, TooCostly } from "../../bodies/body-reader.ts";
import { toGatewayError } from "../../errors.ts";
import type { UpstreamAnswer } from "../call.ts";
import { type Failure, tooCostly } from "../failure.ts";
import { AnswerCollector, decodeAnswer, isCoded, type RawAnswer, readAnswer, type Reading } from "../wire/answer.ts";
import type { AnswerReader, Attempt } from "./attempt.ts";
import { connectionFailure, OutOfStep } from "../wire/connection-failure.ts";
import { isToAnother } from "./own-answer.ts";
import type { AnswerMode } from "./attempts.ts";

/** The answer is kept until it is complete. */
export const BUFFERED: AnswerMode<UpstreamAnswer> = {
  isStreamed: false,
  createReader: (attempt) => new BufferedAnswerReader(attempt),
};

/** Reads an answer when all of it is here: decodes it, parses it, and compares the admin that an info names. */
class BufferedAnswerReader extends AnswerCollector implements AnswerReader {
  readonly isHeldUp = false;
  private readonly attempt: Attempt<UpstreamAnswer>;

  constructor(attempt: Attempt<UpstreamAnswer>) {
    const { clock, config, limits } = attempt.parts;
    super({ clock, upstream: config.name, maxBody: limits.responseBody, requestedAt: attempt.startedAt });
    this.attempt = attempt;
  }

  abort(): void {
    this.stop();
  }

  protected collected(raw: RawAnswer): void {
    if (isCoded(raw)) void this.decode(raw);
    else this.read(raw);
  }

  protected failed(failure: Failure): void {
    this.attempt.end({ answer: undefined, failure });
  }

  private async decode(raw: RawAnswer): Promise<void> {
    const decoded = await decodeAnswer(raw, this.attempt.context);
    if ("reason" in decoded) this.failed(decoded);
    else this.read(decoded);
  }

  private read(raw: RawAnswer): void {
    if (this.attempt.isOver) return;
    // Those wait for a thread, each for the one before: passed on as fast as they come they fill the memory.
    if (raw.body.length > AT_ONCE) void this.readElsewhere(raw);
    else this.conclude(raw, readAnswerBody(raw.body, this.attempt.owner.call.operation));
  }

  /** Has a large body read in another thread; until then the attempt goes on, and so does its time. */
  private async readElsewhere(raw: RawAnswer): Promise<void> {
    const { attempt } = this;
    const { config, bodies } = attempt.parts;
    const { operation } = attempt.owner.call;
    try {
      const asker = { source: config.name, isWanted: () => !attempt.isOver };
      this.conclude(raw, await bodies.read({ kind: "answer", operation }, raw.body, asker));
    } catch (error) {
      this.failed(
        error instanceof TooCostly ? tooCostly(config.name) : { reason: "internal", error: toGatewayError(error) },
      );
    }
  }

  private conclude(raw: RawAnswer, content: AnswerContent): void {
    if (this.attempt.isOver) return;
    const { request, parts, owner } = this.attempt;
    const read = readAnswer(raw, content, this.attempt.context);
    if (read.answer !== undefined && isToAnother(owner.call, read.answer)) {
      request.origin?.close();
      return this.failed(connectionFailure(parts.config.name, new OutOfStep("another"), false));
    }
    const reading = this.compareAdmin(read);
    const answer = reading.answer && { ...reading.answer, origin: request.origin };
    this.attempt.end({ ...reading, answer }, answer?.fields);
  }

  /** An info that names another admin is of another registry, and so is whatever else this node would answer. */
  private compareAdmin(reading: Reading): Reading {
    const { parts, node, owner } = this.attempt;
    const { answer } = reading;
    if (owner.call.operation !== "info" || answer?.status !== 200) return reading;
    const admin = answer.content?.adminId;
    if (admin === parts.nodes.admin) parts.nodes.noteApis(node, answer.content?.supportedApis);
    if (admin === undefined || admin === parts.nodes.admin) return reading;
    try {
      parts.nodes.named(node, admin);
    } catch (error) {
      return { answer: undefined, failure: { reason: "wrong-admin", error: toGatewayError(error) } };
    }
    return reading;
  }
}
