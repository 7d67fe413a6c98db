import { type AnswerContent, isSuccess, readAnswerBody } from "../../bodies/answer.ts";
import { AT_ONCE, TooCostly } from "../../bodies/body-reader.ts";
import { toGatewayError } from "../../errors.ts";
import { isCached, OPERATION_RECORDS } from "../../spec/operations.ts";
import type { UpstreamAnswer, UpstreamCall } from "../call.ts";
import { type Failure, tooCostly, tooManyAnswers } from "../failure.ts";
import { decodeAnswer, isCoded, type RawAnswer, readAnswer, type Reading } from "../wire/answer.ts";
import { connectionFailure, OutOfStep } from "../wire/connection-failure.ts";
import type { Exchange } from "../wire/in-step.ts";
import { type Attempt, readingContext } from "./attempt.ts";

/** What an attempt brought, read: decoded, parsed, and distinguished by its status. Never rejects. */
export async function readOutcome(attempt: Attempt, outcome: RawAnswer | Failure): Promise<Reading> {
  const { parts, call, node } = attempt;
  const { name } = parts.config;
  if ("reason" in outcome) return failed(outcome);
  try {
    const context = readingContext(parts, call, node.index);
    const raw = isCoded(outcome) ? await decodeAnswer(outcome, context) : outcome;
    if ("reason" in raw) return failed(raw);
    if (raw !== outcome && raw.body.length > AT_ONCE) {
      attempt.held.note(raw.body.length);
      if (attempt.held.isTooMuch()) return failed(tooManyAnswers());
    }
    return readAnswer(raw, await readBody(attempt, raw.body), context);
  } catch (error) {
    return failed(error instanceof TooCostly ? tooCostly(name) : { reason: "internal", error: toGatewayError(error) });
  }
}

/** What a body says: a large one is read in another thread, while the attempt and its time go on. */
function readBody(attempt: Attempt, body: Buffer): AnswerContent | Promise<AnswerContent> {
  const { parts, call } = attempt;
  const { operation } = call;
  if (body.length <= AT_ONCE) return readAnswerBody(body, operation);
  const asker = { source: parts.config.name, isWanted: () => !attempt.isOver };
  return parts.bodies.read({ kind: "answer", operation }, body, asker);
}

/** Holds an answer against what was asked, and against the admin that the registry is known by. */
export function compareWithCall({ parts, call, request, node }: Attempt, reading: Reading): Reading {
  const { answer } = reading;
  if (answer === undefined) return reading;
  const { exchange: origin } = request;
  if (origin?.isOutOfStep === true)
    return failed(connectionFailure(parts.config.name, new OutOfStep("unasked"), false));
  const isStray = isToAnother(call, answer);
  if (isStray || isOfAnother(call, reading, origin)) {
    origin?.close();
    // A 404 may be the registry's way to say it: it is the answer where no other can be had.
    return {
      answer: isStray ? undefined : { ...answer, origin },
      failure: connectionFailure(parts.config.name, new OutOfStep("another"), false),
    };
  }
  if (call.instrument !== undefined && answer.content?.instrument === call.instrument) origin?.confirm();
  if (call.operation === "info" && isSuccess(answer.status)) {
    const { adminId, supportedApis } = answer.content ?? {};
    try {
      if (adminId === parts.nodes.admin) {
        origin?.confirm();
        parts.nodes.noteApis(node, supportedApis);
      }
      // An info that names another admin is of another registry, and so is whatever else this node would answer.
      else if (adminId !== undefined) parts.nodes.named(node, adminId);
    } catch (error) {
      return failed({ reason: "wrong-admin", error: toGatewayError(error) });
    }
  }
  return { ...reading, answer: { ...answer, origin } };
}

function failed(failure: Failure): Reading {
  return { answer: undefined, failure };
}

/**
 * Whether an answer is to another question than this call asks: it is of another kind, or about another instrument. Over
 * HTTP/1.1 nothing but its content shows that.
 */
function isToAnother(
  { operation, instrument }: Pick<UpstreamCall, "operation" | "instrument">,
  { status, content }: UpstreamAnswer,
): boolean {
  if (!isSuccess(status) || content === undefined || operation === "pass_through") return false;
  const expected = isCached(operation) ? operation : OPERATION_RECORDS[operation].kind;
  if (content.kinds.length > 0 && !content.kinds.includes(expected)) return true;
  return instrument !== undefined && content.instrument !== undefined && content.instrument !== instrument;
}

/**
 * Whether a 404 is about what was asked for before over the same connection: its text has that id, and not the one asked
 * for. One without an id could be anybody's.
 */
export function isOfAnother(
  { operation }: Pick<UpstreamCall, "operation">,
  { answer, original }: Reading,
  origin: Exchange | undefined,
): boolean {
  if (answer?.status !== 404 || operation === "pass_through" || original === undefined) return false;
  return origin?.namesAnother(original.toString("utf8", 0, 4_096)) === true;
}
