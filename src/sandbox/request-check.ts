import type { IncomingHttpHeaders } from "node:http";
import { jsonAnswer, type Answer } from "./answer.ts";
import type { Refusals } from "./error-style.ts";
import { isObject, parseJson } from "../json.ts";

/** A request body that passed the checks. */
export interface CheckedBody {
  choiceArguments: Record<string, unknown>;
  excludeDebugFields: boolean;
}

/** How this registry checks bodies. */
export interface BodyRules {
  refusals: Refusals;
  /** Whose admin the body may name; undefined: the registry does not look. */
  admin: string | undefined;
  /** Whether `meta` must be a flat map of strings, as published. */
  flatMeta: boolean;
}

/** Where bodies name the admin: version 1, then version 2, of transfers and allocations. */
const ADMIN_PATHS: readonly (readonly string[])[] = [
  ["expectedAdmin"],
  ["transfer", "instrumentId", "admin"],
  ["allocation", "transferLeg", "instrumentId", "admin"],
  ["allocation", "admin"],
];

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((inner, key) => (isObject(inner) ? inner[key] : undefined), value);
}

function namesAnotherAdmin(choiceArguments: Record<string, unknown>, admin: string): boolean {
  return ADMIN_PATHS.some((path) => {
    const named = valueAt(choiceArguments, path);
    return named !== undefined && named !== admin;
  });
}

function isGoodMeta(meta: unknown, flat: boolean): boolean {
  if (meta === undefined || meta === null) return true;
  return isObject(meta) && (!flat || Object.values(meta).every((value) => typeof value === "string"));
}

/** Checks the body of a factory request (`isFactory`) or of a choice-context request; gives it or the refusal. */
export function checkBody(
  request: { headers: IncomingHttpHeaders; body: Buffer },
  rules: BodyRules,
  isFactory: boolean,
): { checked: CheckedBody } | { refused: Answer } {
  const { refusals } = rules;
  const type = request.headers["content-type"];
  if (type !== undefined && !/^application\/json\b/i.test(type)) return { refused: refusals.wrongContentType() };
  const body = request.body.length === 0 && !isFactory ? {} : parseJson(request.body.toString());
  if (!isObject(body)) return { refused: refusals.malformedBody() };
  const { choiceArguments = {}, excludeDebugFields = false, meta } = body;
  if (excludeDebugFields !== null && typeof excludeDebugFields !== "boolean") {
    return { refused: refusals.malformedField("excludeDebugFields") };
  }
  if (!isGoodMeta(meta, rules.flatMeta)) return { refused: refusals.malformedField("meta") };
  if (isFactory && body["choiceArguments"] === undefined) return { refused: refusals.missingChoiceArguments() };
  if (!isObject(choiceArguments)) return { refused: refusals.malformedField("choiceArguments") };
  if (rules.admin !== undefined && namesAnotherAdmin(choiceArguments, rules.admin)) {
    return { refused: jsonAnswer(400, { error: "invalid `expectedAdmin`, must match registry admin" }) };
  }
  return { checked: { choiceArguments, excludeDebugFields: excludeDebugFields === true } };
}
