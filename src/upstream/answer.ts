import { STATUS_CODES } from "node:http";
import { isHtml, readJson } from "../bodies/answer.ts";
import type { Duration } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { type Fields, retryAfter } from "../fields.ts";
import { isObject } from "../json.ts";
import { isOfVersion2, type Operation, OPERATION_RECORDS } from "../spec/operations.ts";
import { answerProblem } from "../spec/schemas.ts";
import { errorText } from "./error-text.ts";
import { Failure, failed, type FailureReason } from "./failure.ts";
import type { Answer } from "./types.ts";

/** A complete answer as it came from the wire, its content coding undone. */
export type RawAnswer = Omit<Answer, "json">;

/** The question, as far as it takes to read its answer. */
export interface Question {
  /** The upstream's alias. */
  readonly upstream: string;
  readonly operation: Operation;
  readonly validation: "lenient" | "strict";
  /** The id that an instrument has to have. */
  readonly id?: string | undefined;
  /** The registry's admin, where it is known: an info has to name it. */
  readonly admin?: string | undefined;
  /** The request carried a condition, so that 304 is an answer. */
  readonly isConditional: boolean;
  /** The request carried credentials of the gateway's: a 401 or 403 is about those. */
  readonly hasOwnCredentials: boolean;
  /** The time (Unix ms) that a date in `Retry-After` is compared with. */
  readonly wallNow: number;
}

const BUSY: Readonly<Record<number, FailureReason>> = {
  429: "http_429",
  502: "http_502",
  503: "http_503",
  504: "http_504",
};

/** Reads an answer: it may go to the client, or is a failure. */
export function readAnswer(raw: RawAnswer, question: Question): Answer | Failure {
  const { status, fields, body } = raw;
  const refusal = refuseStatus(status, question);
  if (refusal !== undefined) return refusal;
  if (question.operation === "pass_through") return { ...raw, json: undefined };
  if (status === 204 || status === 304) return { ...raw, body: Buffer.alloc(0), json: undefined };
  const read = readJson(body);
  if (status < 300) {
    if (read !== undefined) return readSuccess({ ...raw, json: read.json }, question);
    const what = isHtml(fields, body) ? "an HTML page" : "something that is not JSON";
    return failed("unreadable", question.upstream, { text: `answered ${status} with ${what}` });
  }
  const isStandard = isObject(read?.json) && typeof read.json["error"] === "string";
  if (status === 404 && !isStandard && isHtml(fields, body) && !isOfVersion2(question.operation)) {
    return failed("wrong_url", question.upstream);
  }
  const last = isStandard ? { ...raw, json: read.json } : inOurForm(raw, question);
  const reason = betterElsewhere(raw, question);
  if (reason !== undefined) return new Failure(reason, last);
  return last instanceof GatewayError ? new Failure("http_error", last, `answered ${status}`) : last;
}

/** Says why an answer of this status goes to nobody, whatever its body says; undefined: the body counts. */
function refuseStatus(status: number, { upstream, isConditional, hasOwnCredentials }: Question): Failure | undefined {
  // RFC 9110 §15: a status beyond 599 is none.
  if (status > 599)
    return failed("protocol", upstream, { text: `answered with the status ${status}, which HTTP does not have` });
  if (status === 304 && isConditional) return undefined;
  if (status === 304) return failed("protocol", upstream, { text: "answered 304 to a request without conditions" });
  if (status >= 300 && status < 400) {
    const text = `answered with a redirect (${status}), which is not followed; its URL is probably wrong`;
    return failed("redirect", upstream, { text });
  }
  if (hasOwnCredentials && (status === 401 || status === 403)) {
    return failed("credentials", upstream, { text: `refused the gateway's credentials (${status})` });
  }
  return undefined;
}

/** Checks that a success is about what was asked for: it is stored, or decides where other requests go. */
function readSuccess(answer: Answer, question: Question): Answer | Failure {
  const { json } = answer;
  const { upstream, operation, id, admin } = question;
  const member = (name: string): unknown => (isObject(json) ? json[name] : undefined);
  if (operation === "info" && admin !== undefined && member("adminId") !== admin)
    return failed("wrong_admin", upstream);
  if (operation === "instrument" && id !== undefined && member("id") !== id) return failed("mismatch", upstream);
  if (question.validation === "lenient" || operation === "pass_through") return answer;
  const problem = answerProblem(operation, json);
  const text = `sent an answer that breaks the published schema: ${problem}`;
  return problem === undefined ? answer : failed("unreadable", upstream, { text });
}

/** Says why another node is worth asking although this is an answer; undefined: none is. */
function betterElsewhere(raw: RawAnswer, { operation, wallNow }: Question): FailureReason | undefined {
  if (raw.status === 404) return isIndexedLate(operation) ? "not_found" : undefined;
  return isConflict(raw, wallNow) ? undefined : BUSY[raw.status];
}

/** Whether it asks for a contract or an instrument, of which nodes learn one after the other. */
function isIndexedLate(operation: Operation): boolean {
  if (operation === "pass_through") return false;
  return operation === "instrument" || OPERATION_RECORDS[operation].kind === "context";
}

/** Whether a 429 is the ledger's about one contract (gRPC's ABORTED), which says nothing of how much is asked. */
export function isConflict(
  { status, fields, body }: Pick<RawAnswer, "status" | "fields" | "body">,
  wallNow: number,
): boolean {
  if (status !== 429 || retryAfter(fields, wallNow) !== undefined) return false;
  return /^\s*\{[^]*(?:ABORTED|reassign)/i.test(body.toString("utf8", 0, 4_096));
}

/** Makes one of ours of a registry's error that is not in the standard's form. */
function inOurForm(raw: RawAnswer, { upstream, operation, wallNow }: Question): GatewayError {
  const { status, fields, body } = raw;
  if (status === 404 && isOfVersion2(operation)) {
    const text = `the registry "${upstream}" does not serve version 2 of this endpoint; use version 1`;
    return new GatewayError("no_such_version", text);
  }
  const said = errorText(fields, body) || (STATUS_CODES[status] ?? "no text");
  const text = `the registry "${upstream}" answered ${status}: ${said}`;
  return new GatewayError("upstream_error", text, { status, retryAfter: retryAfter(fields, wallNow) });
}

/** Pause of a node that answered 429: its `Retry-After`, 1 s without, 1 min at most. */
export function pauseAfter429(fields: Fields, wallNow: number): Duration {
  return Math.min(retryAfter(fields, wallNow) ?? 1, 60) * 1_000;
}
