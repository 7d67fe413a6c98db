import { isUtf8 } from "node:buffer";
import { GatewayError } from "../errors.ts";
import { isObject } from "../json.ts";
import { CACHED_OPERATIONS, cachedRecord, type CachedOperation, isCached, type Operation } from "../spec/operations.ts";
import { answerProblem } from "../spec/schemas.ts";
import { type PageParts, takeApart } from "./page.ts";

export type AnswerKind = CachedOperation | "factory" | "context";

/** What the body of an answer says, as far as the gateway wants to know. */
export interface AnswerContent {
  readonly isJson: boolean;
  /** An object with a string `error`. */
  readonly isError: boolean;
  /** What it could be by its members: as a rule one kind, or it has those of no answer. */
  readonly kinds: readonly AnswerKind[];
  /** The id of a single instrument. */
  readonly instrument: string | undefined;
  /** The instrument admin that an info names; undefined when it names none. */
  readonly adminId: string | undefined;
  /** The APIs that an info names, each with its minor version, in order; undefined when it names none. */
  readonly supportedApis: readonly string[] | undefined;
  /** Why it does not fit the published schema of its endpoint. */
  readonly problem: string | undefined;
  /** The newest `totalSupplyAsOf` in it, Unix time in milliseconds. */
  readonly supplyAsOf: number | undefined;
  /** What a listing says as a page, or why it is none. */
  readonly page: PageParts | string;
}

/** What is not JSON says nothing. */
const NOT_JSON: AnswerContent = {
  isJson: false,
  isError: false,
  kinds: [],
  instrument: undefined,
  adminId: undefined,
  supportedApis: undefined,
  problem: "is not JSON",
  supplyAsOf: undefined,
  page: "it is not JSON",
};

/** Reads the body of an answer. */
export function readAnswerBody(body: Buffer, operation: Operation): AnswerContent {
  // A byte order mark is not JSON (RFC 8259 §8.1), and JSON.parse refuses it.
  if (!isUtf8(body)) return NOT_JSON;
  let json: unknown;
  try {
    json = JSON.parse(body.toString("utf8"));
  } catch {
    return NOT_JSON;
  }
  const isListing = isCached(operation) && cachedRecord(operation).address === "page";
  return {
    isJson: true,
    isError: textOf(json, "error") !== undefined,
    kinds: kindsOf(json),
    instrument: textOf(json, "id"),
    adminId: textOf(json, "adminId") || undefined,
    supportedApis: operation === "info" ? listApis(memberOf(json, "supportedApis")) : undefined,
    problem: answerProblem(operation, json),
    supplyAsOf: newestSupply(json),
    page: isListing ? takeApart(body, json) : NOT_JSON.page,
  };
}

function memberOf(json: unknown, name: string): unknown {
  return isObject(json) ? json[name] : undefined;
}

function textOf(json: unknown, name: string): string | undefined {
  const value = memberOf(json, name);
  return typeof value === "string" ? value : undefined;
}

/** By the members that an answer of each kind has to have. */
function kindsOf(json: unknown): readonly AnswerKind[] {
  return MEMBERS.filter(
    ([, members]) => members.length > 0 && members.every(([name, type]) => typeOf(memberOf(json, name)) === type),
  ).map(([kind]) => kind);
}

const MEMBERS: readonly (readonly [AnswerKind, (readonly [name: string, type: string])[]])[] = [
  ["factory", [["factoryId", "string"]]],
  ["context", [["choiceContextData", "object"]]],
  ...CACHED_OPERATIONS.map((operation) => [operation, Object.entries(cachedRecord(operation).members)] as const),
];

function typeOf(value: unknown): string | undefined {
  if (Array.isArray(value)) return "array";
  return value === null ? undefined : typeof value;
}

/** Names that are compared and logged, and how much of each: a registry supports a handful. */
const MOST_APIS = 64;
const LONGEST_API = 100;

function listApis(supported: unknown): readonly string[] | undefined {
  if (!isObject(supported)) return undefined;
  const apis = Object.entries(supported).map(([name, minor]) => `${name} ${versionText(minor)}`.slice(0, LONGEST_API));
  return apis.toSorted().slice(0, MOST_APIS);
}

/** A structure is no version: one may be too deep to be written, or have a `toString` that is none. */
function versionText(minor: unknown): string {
  return typeof minor === "number" || typeof minor === "string" ? String(minor) : "?";
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

/** Whether an answer of this status gives what was asked for; a 204 gives nothing. */
export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300 && status !== 204;
}

/** Whose answer is compared with the published schema, and how strictly. */
interface Answering {
  readonly name: string;
  readonly config: { readonly validation: "lenient" | "strict" };
}

/**
 * Compares a success answer with the published schema of its endpoint.
 *
 * @param onProblem called where it breaks the schema
 * @returns what is wrong with it, for a registry whose `validation` is lenient: such an answer is passed on
 * @throws GatewayError 502 for a registry whose `validation` is strict
 */
export function checkAnswer(
  { name, config }: Answering,
  { status, content }: { readonly status: number; readonly content?: Pick<AnswerContent, "problem"> | undefined },
  onProblem: () => void,
): string | undefined {
  const problem = isSuccess(status) ? content?.problem : undefined;
  if (problem === undefined) return undefined;
  onProblem();
  if (config.validation !== "strict") return problem;
  throw new GatewayError(
    "upstream_invalid",
    `the registry "${name}" sent an answer that breaks the published schema: ${problem}`,
  );
}
