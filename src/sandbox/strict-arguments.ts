import { isObject } from "../json.ts";
import type { Answer } from "./answer.ts";
import type { Refusals } from "./error-style.ts";
import type { Route } from "./route.ts";

/** What a strict registry holds the arguments of a factory call against. */
export interface StrictRules {
  refusals: Refusals;
  hasInstrument: (id: string) => boolean;
}

type Arguments = Record<string, unknown>;

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
