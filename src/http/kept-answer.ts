import type { ServerResponse } from "node:http";
import type { Lasting } from "../cache/resource.ts";
import type { Fields } from "../fields.ts";
import type { RequestContext } from "./context.ts";
import { HeadText, type Varying } from "./head-text.ts";
import type { RequestHead } from "./repeated-head.ts";
import {
  bodyOf,
  commonFieldsOf,
  headOf,
  type KeptAnswer,
  REQUEST_ID,
  sendBody,
  STANDING,
  writeAnswer,
} from "./send.ts";

/**
 * Sends an answer that many requests get, in a process that does not drain: from the third on, its head is text that was
 * made before.
 *
 * @param context with the wall-clock time in `now`
 */
export function sendKept(
  response: ServerResponse,
  answer: KeptAnswer,
  context: Pick<RequestContext, "id" | "snapshot" | "request" | "standing"> & { readonly now: number },
): void {
  const sent = headFor(answer, context);
  const { head } = sent;
  if (sent.text?.writeTo(response, head, context.now) !== true) {
    response.writeHead(answer.status, head);
    if (sent.isRepeated) sent.text ??= HeadText.of(response, head, varyingOf(sent));
    sent.isRepeated = true;
  }
  sendBody(context.request, response, answer);
}

/**
 * The same for a request that Node's parser has not seen, on a connection that stays open.
 *
 * @returns false, having done nothing, where no head is kept
 */
export function sendKeptAgain(
  answer: KeptAnswer,
  context: Pick<RequestContext, "id" | "snapshot" | "standing"> & {
    readonly request: RequestHead;
    readonly now: number;
  },
): boolean {
  const { text, head } = headFor(answer, context);
  if (text === undefined) return false;
  writeAnswer(context.request, text.text(head, context.now), answer);
  return true;
}

/** A head that was sent, and what it was made of besides the request's id. */
interface SentHead {
  readonly status: number;
  /** Of the body. */
  readonly length: number | undefined;
  /** Of the answer. */
  passing: Fields;
  readonly cors: Fields;
  readonly head: string[];
  /** Of the client that got it, see {@link STANDING}. */
  standing: Fields | undefined;
  text: HeadText | undefined;
  isRepeated: boolean;
}

// On what lasts of an answer: it goes with its entry of the cache, and a WeakMap would be one more place to look.
const SENT = Symbol("sent head");

type SentBefore = Lasting & { [SENT]?: SentHead };

/**
 * The head of an answer in a process that does not drain: the one that was sent last, with the id and the standing of this
 * one, as long as nothing that lasts has changed. Filling in a few of thirty strings costs less than making the list anew.
 */
function headFor(
  answer: KeptAnswer,
  context: Pick<RequestContext, "id" | "snapshot" | "standing"> & { readonly request: Pick<RequestHead, "headers"> },
): SentHead {
  const cors = context.snapshot.cors.answerFields(context.request.headers.origin);
  const standing = context.standing?.fields;
  const { status, passing } = answer;
  const length = bodyOf(answer)?.length;
  const lasting: SentBefore = answer.lasting;
  const sent = lasting[SENT];
  // Status and length last, too; were they ever others, no client could tell where the body ends.
  const isSame = sent !== undefined && sent.status === status && sent.length === length && sent.cors === cors;
  if (isSame && restand(sent, standing) && renew(sent, answer)) {
    sent.head[REQUEST_ID] = context.id;
    return sent;
  }
  const head = headOf(answer, commonFieldsOf(context, false));
  return (lasting[SENT] = { status, length, passing, cors, head, standing, text: undefined, isRepeated: false });
}

/** Writes a client's limits in the place of those of the client before; false where they are other fields. */
function restand(sent: SentHead, standing: Fields | undefined): boolean {
  if (sent.standing === standing) return true;
  if (sent.standing?.length !== standing?.length || standing === undefined) return false;
  sent.standing = standing;
  for (const [i, text] of standing.entries()) sent.head[STANDING + i] = text;
  sent.text?.firstChanged();
  return true;
}

/** Writes what does not last in the place of what was sent last; false where they are other fields. */
function renew(sent: SentHead, answer: KeptAnswer): boolean {
  const { passing } = answer;
  if (sent.passing === passing) return true;
  if (sent.passing.length !== passing.length) return false;
  sent.passing = passing;
  const start = sent.head.length - lengthEntries(sent) - passing.length;
  for (const [i, text] of passing.entries()) sent.head[start + i] = text;
  sent.text?.lastChanged();
  return true;
}

/** What of a head is of one request, or one second, and not of the next. */
function varyingOf(sent: SentHead): Varying {
  const { standing, passing } = sent;
  const first = standing === undefined ? REQUEST_ID + 1 : STANDING + standing.length;
  return { first, last: passing.length + lengthEntries(sent) };
}

/** How many entries at the end of a head are those of `content-length`. */
function lengthEntries({ length }: SentHead): number {
  return length === undefined ? 0 : 2;
}
