import type { IncomingMessage, ServerResponse } from "node:http";
import { type Item, serializeList, Token } from "structured-headers";
import { ERROR_FIELD, errorBody, type GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";
import type { RequestContext } from "./context.ts";

/** An answer as it goes to the client, but for the fields that every answer has. */
export interface Answer {
  readonly status: number;
  readonly fields: Fields;
  /** Undefined where there is none (304). */
  readonly body: Buffer | undefined;
}

/** Bytes. Beyond, copying a body costs more than it spares. */
const SMALL = 1024;

/** Sends an answer of ours in one write: the given fields, then those that every answer has. */
export function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  answer: Answer,
  commonFields: readonly string[],
): void {
  sendUnder(headOf(answer, commonFields), request, response, answer);
}

/** Sends an answer under a head made by {@link headOf}; keeps nothing of it. */
export function sendUnder(
  head: readonly string[],
  request: IncomingMessage,
  response: ServerResponse,
  answer: Answer,
): void {
  response.writeHead(answer.status, head as string[]);
  const body = bodyOf(answer);
  if (body === undefined || request.method === "HEAD") response.end();
  // As text, a small body goes into one buffer with the head: copying it costs less than writing two.
  else if (body.length < SMALL) response.end(body.toString("latin1"), "latin1");
  else response.end(body);
}

/** All fields of an answer. */
export function headOf(answer: Answer, commonFields: readonly string[]): string[] {
  const body = bodyOf(answer);
  const head = [...commonFields, ...answer.fields];
  if (body !== undefined) head.push("content-length", String(body.length));
  return head;
}

/** RFC 9110 §8.6: a 204 has no content-length, nor a body. */
function bodyOf({ status, body }: Answer): Buffer | undefined {
  return status === 204 ? undefined : body;
}

/** Where among the fields that every answer has, which begin its head, the id's value is. */
export const REQUEST_ID = 1;

/** The fields that every answer has: id, CORS, `nosniff`, and `close` while the process drains. */
export function commonFieldsOf(
  { id, snapshot, request }: Pick<RequestContext, "id" | "snapshot" | "request">,
  isDraining: boolean,
): string[] {
  const fields = [
    "x-request-id",
    id,
    "x-content-type-options",
    "nosniff",
    ...snapshot.cors.answerFields(request.headers.origin),
  ];
  if (isDraining) fields.push("connection", "close");
  return fields;
}

/** The answer for an error of the gateway's own. Never to be kept: it says how things are now. */
export function errorAnswer(error: GatewayError): Answer {
  const fields = ["content-type", "application/json", "cache-control", "no-store", ERROR_FIELD, error.code];
  if (error.retryAfter !== undefined) fields.push("retry-after", String(error.retryAfter));
  if (error.allow !== undefined) fields.push("allow", error.allow);
  if (error.proxyError !== undefined && error.status >= 502) fields.push("proxy-status", proxyStatus(error.proxyError));
  return { status: error.status, fields, body: Buffer.from(errorBody(error.message)) };
}

/** `Proxy-Status: registry-gateway; error=…` (RFC 9209 §2.1, §2.3). */
function proxyStatus(error: string): string {
  const member: Item = [new Token("registry-gateway"), new Map([["error", new Token(error)]])];
  return serializeList([member]);
}
