import { isUtf8 } from "node:buffer";
import { parse } from "secure-json-parse";
import { adminsNamedBy, allocationsOf, AmbiguousBody, type BodyAdmin } from "../spec/body-admin.ts";
import type { AdminPaths } from "../spec/operations.ts";
import { requestProblem } from "../spec/schemas.ts";

/** What a request's body has to be. */
export interface RequestForm {
  /** Undefined: any JSON. */
  readonly kind: "factory" | "context" | undefined;
  /** Where it may name an admin. */
  readonly paths: AdminPaths | undefined;
  /** A settlement, by whose allocations its registry may be known. */
  readonly isSettlement?: boolean;
}

/** Why a body is refused: the code of the error, and its text for the caller. */
export interface RequestRefusal {
  readonly code: "malformed_body" | "invalid_request" | "admin_ambiguous";
  readonly text: string;
}

/** What a request's body says, as far as the gateway wants to know. */
export interface RequestContent {
  readonly refusal: RequestRefusal | undefined;
  /** Why it breaks the published rules beyond the form that every registry wants. */
  readonly strictProblem: string | undefined;
  /** The admins it names. */
  readonly admins: readonly BodyAdmin[];
  /** The contract ids of the allocations that a settlement names. */
  readonly allocations: readonly string[];
}

/** Reads the body of a request. */
export function readRequestBody(body: Buffer, { kind, paths, isSettlement }: RequestForm): RequestContent {
  const parsed = parseJson(body);
  if (typeof parsed === "string") return refused("malformed_body", parsed);
  const { text, json } = parsed;
  const problem = problemOf(kind, json, false);
  if (problem !== undefined) return refused("invalid_request", problem);
  try {
    return {
      refusal: undefined,
      strictProblem: problemOf(kind, json, true),
      admins: paths === undefined ? [] : adminsNamedBy(text, json, paths),
      allocations: isSettlement === true ? allocationsOf(text, json) : [],
    };
  } catch (error) {
    if (error instanceof AmbiguousBody) return refused("admin_ambiguous", error.message);
    throw error;
  }
}

/**
 * A body as strict JSON.
 *
 * @returns why it is refused: bytes that are no UTF-8 or begin with a byte order mark, text that is not one JSON value,
 * or a key `__proto__` anywhere
 */
export function parseJson(body: Buffer): { readonly text: string; readonly json: unknown } | string {
  if (!isUtf8(body)) return "the body is not UTF-8";
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) {
    return "the body begins with a byte order mark; send JSON without one";
  }
  const text = body.toString("utf8");
  try {
    // Without these no key can be __proto__, and the search for one is spared.
    if (!text.includes("__proto__") && !text.includes("\\u")) return { text, json: JSON.parse(text) as unknown };
    return { text, json: parse(text, null, { protoAction: "error", constructorAction: "ignore" }) as unknown };
  } catch (error) {
    const isForbidden = error instanceof SyntaxError && error.message.includes("forbidden");
    return isForbidden ? "the body has a key __proto__" : "the body is not valid JSON";
  }
}

function problemOf(kind: RequestForm["kind"], json: unknown, strict: boolean): string | undefined {
  const problem = kind === undefined ? undefined : requestProblem(kind, json, strict);
  return problem && `the request is not valid: ${problem}`;
}

function refused(code: RequestRefusal["code"], text: string): RequestContent {
  return { refusal: { code, text }, strictProblem: undefined, admins: [], allocations: [] };
}
