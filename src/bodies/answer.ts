import { isUtf8 } from "node:buffer";
import { CLOSE_BRACE, isObject, isWhitespace, OPEN_BRACE } from "../json.ts";
import type { Operation } from "../spec/endpoints.ts";
import { answerProblem } from "../spec/schemas.ts";
import { type PageParts, takeApart } from "./page.ts";

/** What the body of an answer says, as far as the gateway wants to know. */
export interface AnswerContent {
  readonly isJson: boolean;
  /** An object with a string `error`. */
  readonly isError: boolean;
  /** The instrument admin that an info names; undefined when it names none. */
  readonly adminId: string | undefined;
  /** The APIs that an info names, each with its minor version, in order; undefined when it names none. */
  readonly supportedApis: readonly string[] | undefined;
  /** Why it does not fit the published schema of its endpoint. */
  readonly problem: string | undefined;
  /** The newest `totalSupplyAsOf` in it, Unix time in milliseconds. */
  readonly supplyAsOf: number | undefined;
  /** What it says as a page, or why it is none. */
  readonly page: PageParts | string;
}

/** What is not JSON says nothing. */
const NOT_JSON: AnswerContent = {
  isJson: false,
  isError: false,
  adminId: undefined,
  supportedApis: undefined,
  problem: "is not JSON",
  supplyAsOf: undefined,
  page: "it is not JSON",
};

/** What a success that is passed on unread says: no more than that it is JSON. */
export const UNREAD: AnswerContent = { ...NOT_JSON, isJson: true, problem: undefined, page: "it was not read" };

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json[ \t]*(?:;|$)/i;

/**
 * Whether an answer of this content type has the form of a JSON object: text in UTF-8 from brace to brace. To parse it
 * would take an eighth of what a call costs.
 */
export function hasJsonForm(contentType: string | undefined, body: Buffer): boolean {
  if (contentType === undefined || !JSON_TYPE.test(contentType)) return false;
  let start = 0;
  let end = body.length - 1;
  while (isWhitespace(body[start])) start += 1;
  while (isWhitespace(body[end])) end -= 1;
  return start < end && body[start] === OPEN_BRACE && body[end] === CLOSE_BRACE && isUtf8(body);
}

/** Reads the body of an answer; what costs more than to parse it is done when it is asked for. */
export function readAnswerBody(body: Buffer, operation: Operation): AnswerContent {
  // A byte order mark is not JSON (RFC 8259 §8.1), and JSON.parse refuses it.
  if (!isUtf8(body)) return NOT_JSON;
  try {
    return new ParsedAnswer(body, operation, JSON.parse(body.toString("utf8")));
  } catch {
    return NOT_JSON;
  }
}

/** The same with everything done, for another thread. */
export function summariseAnswer(body: Buffer, operation: Operation): AnswerContent {
  const content = readAnswerBody(body, operation);
  const { isJson, isError, adminId, supportedApis, problem, supplyAsOf } = content;
  // How it would read as a page is asked of listings only.
  const page = operation === "instruments" ? content.page : NOT_JSON.page;
  return { isJson, isError, adminId, supportedApis, problem, supplyAsOf, page };
}

class ParsedAnswer implements AnswerContent {
  readonly isJson = true;
  private readonly body: Buffer;
  private readonly operation: Operation;
  private readonly json: unknown;

  constructor(body: Buffer, operation: Operation, json: unknown) {
    this.body = body;
    this.operation = operation;
    this.json = json;
  }

  get isError(): boolean {
    return typeof memberOf(this.json, "error") === "string";
  }

  get adminId(): string | undefined {
    const adminId = memberOf(this.json, "adminId");
    return typeof adminId === "string" && adminId !== "" ? adminId : undefined;
  }

  get supportedApis(): readonly string[] | undefined {
    return this.operation === "info" ? listApis(memberOf(this.json, "supportedApis")) : undefined;
  }

  get problem(): string | undefined {
    return answerProblem(this.operation, this.json);
  }

  get supplyAsOf(): number | undefined {
    return newestSupply(this.json);
  }

  get page(): PageParts | string {
    return takeApart(this.body, this.json);
  }
}

function memberOf(json: unknown, name: string): unknown {
  return isObject(json) ? json[name] : undefined;
}

/** Names that are compared and logged, and how much of each: a registry supports a handful. */
const MOST_APIS = 64;
const LONGEST_API = 100;

function listApis(supported: unknown): readonly string[] | undefined {
  if (!isObject(supported)) return undefined;
  const apis = Object.entries(supported).map(([name, minor]) => `${name} ${String(minor)}`.slice(0, LONGEST_API));
  return apis.toSorted().slice(0, MOST_APIS);
}

const ZONE = /(?:Z|[+-]\d{2}:?\d{2})$/i;

/**
 * The newest `totalSupplyAsOf` of an instrument or of a page of them, as Unix time in milliseconds; undefined where
 * there is none. Times without a zone, as spec.md §2.2 shows them, are taken for UTC.
 */
function newestSupply(json: unknown): number | undefined {
  const { instruments } = (json ?? {}) as { instruments?: unknown };
  const all: readonly unknown[] = Array.isArray(instruments) ? instruments : [json];
  let newest = -Infinity;
  for (const instrument of all) {
    const { totalSupplyAsOf } = (instrument ?? {}) as { totalSupplyAsOf?: unknown };
    if (typeof totalSupplyAsOf !== "string") continue;
    const asOf = Date.parse(ZONE.test(totalSupplyAsOf) ? totalSupplyAsOf : `${totalSupplyAsOf}Z`);
    if (asOf > newest) newest = asOf;
  }
  return newest === -Infinity ? undefined : newest;
}
