import { readAnswerBody } from "../../bodies/answer.ts";
import { AT_ONCE } from "../../bodies/body-reader.ts";
import { collect, NotCollected } from "../../bodies/collected-body.ts";
import type { CollectedAnswer, StreamedCall } from "../call.ts";
import { tooManyAnswers } from "../failure.ts";
import type { UpstreamParts } from "../parts.ts";
import { refusedAnswer } from "../wire/answer.ts";
import { streamCall } from "./streamed-call.ts";

/**
 * {@link streamCall} whose answer is waited for to its end: of any type and status, with the bytes that the node sent, and
 * an error where it broke off.
 *
 * @throws as `streamCall`
 */
export async function collectCall(parts: UpstreamParts, call: StreamedCall): Promise<CollectedAnswer> {
  const { body: stream, mayBeCut, ...head } = await streamCall(parts, call);
  const context = { upstream: parts.config.name, maxBody: parts.limits.responseBody };
  const giveUp = (): void => void stream.destroy(tooManyAnswers().error);
  const held = parts.answers.begin({ largest: context.maxBody, giveUp });
  try {
    const body = await collect(stream, context.maxBody, { onHeld: held.note });
    held.complete();
    const receivedAt = parts.clock.now();
    const isDoubtful = mayBeCut() || (head.origin !== undefined && (await mayBeOfEndpoint(parts, body)));
    return { ...head, body, receivedAt, isDoubtful };
  } catch (error) {
    throw error instanceof NotCollected ? refusedAnswer(error.fault, context).error : error;
  } finally {
    held.release();
  }
}

/** Whether a body has the form of an endpoint's answer, or could not be read. A large one is read in another thread. */
async function mayBeOfEndpoint({ bodies, config }: UpstreamParts, body: Buffer): Promise<boolean> {
  if (body.length <= AT_ONCE) return readAnswerBody(body, "pass_through").kinds.length > 0;
  try {
    const asker = { source: config.name, isWanted: () => true };
    const { kinds } = await bodies.read({ kind: "answer", operation: "pass_through" }, body, asker);
    return kinds.length > 0;
  } catch {
    return true;
  }
}
