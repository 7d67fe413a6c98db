import type { IncomingHttpHeaders } from "node:http";
import { isObject, parseJson } from "../json.ts";
import { type Answer, jsonAnswer, type Refusals } from "./answer.ts";
import type { Route } from "./route.ts";

type Arguments = Record<string, unknown>;

/** A request body that passed the checks. */
export interface CheckedBody {
  choiceArguments: Arguments;
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

function namesAnotherAdmin(choiceArguments: Arguments, admin: string): boolean {
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

/** What a strict registry holds the arguments of a factory call against. */
export interface StrictRules {
  refusals: Refusals;
  hasInstrument: (id: string) => boolean;
}

/** What is wrong with the arguments of a factory call that a lenient registry answers all the same; undefined: nothing. */
export function refuseArguments(subject: Route["subject"], given: Arguments, rules: StrictRules): Answer | undefined {
  switch (subject) {
    case "transfer-factory":
      return refuseTransfer(given["transfer"], rules);
    case "allocation-factory":
      return refuseAllocation(given["allocation"], rules);
    case "settlement-factory":
      return refuseSettlement(given, rules);
    default:
      return undefined;
  }
}

/** Of version 1 or 2: `{sender, receiver, amount, instrumentId: {admin, id}, …}`. */
function refuseTransfer(transfer: unknown, rules: StrictRules): Answer | undefined {
  if (!isObject(transfer)) return rules.refusals.malformedField("transfer");
  const missing = ["sender", "receiver", "instrumentId"].find((field) => isEmpty(transfer[field]));
  if (missing !== undefined) return rules.refusals.malformedField(missing);
  if (!isAmount(transfer["amount"])) return rules.refusals.malformedField("amount");
  const { instrumentId } = transfer;
  return refuseInstrument(isObject(instrumentId) ? instrumentId["id"] : undefined, rules);
}

/** Version 1 has one `transferLeg` that names its instrument, version 2 several sides of legs. */
function refuseAllocation(allocation: unknown, rules: StrictRules): Answer | undefined {
  if (!isObject(allocation)) return rules.refusals.malformedField("allocation");
  const { transferLeg, transferLegSides } = allocation;
  if (isObject(transferLeg)) return refuseTransfer(transferLeg, rules);
  if (!Array.isArray(transferLegSides) || transferLegSides.length === 0) {
    return rules.refusals.malformedField("transferLegSides");
  }
  return refuseLegs(transferLegSides, rules);
}

function refuseSettlement({ transferLegs, allocations }: Arguments, rules: StrictRules): Answer | undefined {
  if (!Array.isArray(transferLegs) || transferLegs.length === 0) return rules.refusals.malformedField("transferLegs");
  if (!Array.isArray(allocations) || allocations.length === 0) return rules.refusals.malformedField("allocations");
  return refuseLegs(transferLegs, rules);
}

/** Legs of version 2 name their instrument as plain text. */
function refuseLegs(legs: readonly unknown[], rules: StrictRules): Answer | undefined {
  for (const leg of legs) {
    if (!isObject(leg) || !isAmount(leg["amount"])) return rules.refusals.malformedField("amount");
    const refused = refuseInstrument(leg["instrumentId"], rules);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

function refuseInstrument(id: unknown, { refusals, hasInstrument }: StrictRules): Answer | undefined {
  if (typeof id !== "string" || id === "") return refusals.malformedField("instrumentId");
  return hasInstrument(id) ? undefined : refusals.unknownInstrument(id);
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === "";
}

/** More than nothing, written as the standard writes decimals: up to ten digits behind the point. */
function isAmount(value: unknown): boolean {
  return typeof value === "string" && /^\d{1,28}(\.\d{1,10})?$/.test(value) && /[1-9]/.test(value);
}
