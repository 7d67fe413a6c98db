import { type AnswerContent, hasJsonForm, readAnswerBody, UNREAD } from "../../bodies/answer.ts";
import { AT_ONCE, TooCostly } from "../../bodies/body-reader.ts";
import { toGatewayError } from "../../errors.ts";
import { fieldValue } from "../../fields.ts";
import type { UpstreamAnswer } from "../call.ts";
import { type Failure, tooCostly } from "../failure.ts";
import { AnswerCollector, decodeAnswer, isCoded, type RawAnswer, readAnswer, type Reading } from "../wire/answer.ts";
import type { AnswerReader, Attempt } from "./attempt.ts";
import type { AnswerMode } from "./attempts.ts";

/** A node's answers to POSTs are read until so many in a row were JSON, and again from one on that is not. */
const SOUND_IN_A_ROW = 50;

/** Of those after that, one in so many is read, and compared with its schema. */
const READ_SAMPLE = 20;

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
    else if (this.isPassedOnUnread(raw)) this.conclude(raw, UNREAD);
    else this.conclude(raw, readAnswerBody(raw.body, this.attempt.owner.call.operation));
  }

  /**
   * Whether it is taken for JSON by its form: what a factory or choice context says is asked only where answers are held
   * to the schema, of nodes that have yet to show what they send, and of a sample.
   */
  private isPassedOnUnread({ status, fields, body }: RawAnswer): boolean {
    const { parts, node, owner } = this.attempt;
    if (owner.call.method !== "POST" || !isSuccess(status) || node.soundAnswers < SOUND_IN_A_ROW) return false;
    if (parts.config.validation === "strict" || !hasJsonForm(fieldValue(fields, "content-type"), body)) return false;
    return parts.random() >= 1 / READ_SAMPLE;
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
    const { node, owner } = this.attempt;
    if (content !== UNREAD && owner.call.method === "POST" && isSuccess(raw.status)) {
      node.soundAnswers = content.isJson ? node.soundAnswers + 1 : 0;
    }
    const reading = this.compareAdmin(readAnswer(raw, content, this.attempt.context));
    this.attempt.end(reading, reading.answer?.fields);
  }

  /** An info that names another admin is of another registry, and so is whatever else this node would answer. */
  private compareAdmin(reading: Reading): Reading {
    const { parts, node, owner } = this.attempt;
    const { answer } = reading;
    if (owner.call.operation !== "info" || answer?.status !== 200) return reading;
    const admin = answer.content?.adminId;
    if (admin === parts.nodes.admin) parts.nodes.hearApis(node, answer.content?.supportedApis);
    if (admin === undefined || admin === parts.nodes.admin) return reading;
    try {
      parts.nodes.hearFromCall(node, admin);
    } catch (error) {
      return { answer: undefined, failure: { reason: "wrong-admin", error: toGatewayError(error) } };
    }
    return reading;
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}
