import type { Operation } from "../spec/operations.ts";
import { type Answer, jsonAnswer } from "./answer.ts";
import { contractId } from "./contracts.ts";
import type { Random } from "./random.ts";

/** In what a node differs from the honest nodes of its registry; the honest do so by `order` and `cuts`, too. */
export const LIES = [
  "always",
  "sometimes",
  "late",
  "slow",
  "blob",
  "duplicates",
  "error",
  "colluding",
  "order",
  "cuts",
] as const;
export type Lie = (typeof LIES)[number];

export interface Liar {
  readonly lie: Lie;
  /** Distinguishes it from other liars; those that collude say the same. */
  readonly name: string;
  readonly random: Random;
}

type Json = Record<string, unknown>;

/** The answer of a liar in place of the honest one. Its info is honest: a node of another admin gets no calls at all. */
export function lieAbout(answer: Answer, operation: Operation, { lie, name, random }: Liar): Answer {
  if (answer.status !== 200 || operation === "info" || operation === "pass_through") return answer;
  const change = (by: (json: Json) => Json): Answer => {
    return { ...answer, body: JSON.stringify(by(JSON.parse(String(answer.body)) as Json)) };
  };
  switch (lie) {
    case "always":
    case "slow":
      return change((json) => invent(json, name));
    case "sometimes":
      return random() < 0.5 ? answer : change((json) => invent(json, name));
    case "colluding":
      return change((json) => invent(json, "liars"));
    case "blob":
      return change((json) => changeLists(json, alterBlob));
    case "duplicates":
      return change((json) => changeLists(json, (list) => [...list, ...list.slice(0, 1)]));
    case "order":
      return change((json) => changeLists(json, (list) => list.toReversed()));
    case "error":
      return jsonAnswer(404, { error: "there is no such thing here" });
    case "late":
    case "cuts":
      // They differ in what they know, and in how they page.
      return answer;
  }
}

/** Names of instruments, and what a choice is made with, are its own. */
function invent(json: Json, by: string): Json {
  const { instruments, choiceContext, choiceContextData } = json;
  if (Array.isArray(instruments)) return { ...json, instruments: instruments.map((each: Json) => invent(each, by)) };
  if (choiceContext !== undefined) return { ...json, choiceContext: invent(choiceContext as Json, by) };
  if (choiceContextData === undefined) return { ...json, name: `${String(json["name"])} of ${by}` };
  const { values } = choiceContextData as { values: Json };
  const invented = { tag: "AV_ContractId", value: contractId(by, "invented") };
  return { ...json, choiceContextData: { values: { ...values, invented } } };
}

/** With other lists of instruments or disclosed contracts. */
function changeLists(json: Json, change: (list: readonly Json[]) => readonly Json[]): Json {
  const changed = Object.entries(json).map(([name, value]): [string, unknown] => {
    if (name === "choiceContext") return [name, changeLists(value as Json, change)];
    return [name, name === "instruments" || name === "disclosedContracts" ? change(value as Json[]) : value];
  });
  return Object.fromEntries(changed);
}

/** One byte of the first blob is another. */
function alterBlob([first, ...others]: readonly Json[]): readonly Json[] {
  if (typeof first?.["createdEventBlob"] !== "string") return first === undefined ? [] : [first, ...others];
  const blob = Buffer.from(first["createdEventBlob"], "base64");
  blob[blob.length - 1]! ^= 1;
  return [{ ...first, createdEventBlob: blob.toString("base64") }, ...others];
}
