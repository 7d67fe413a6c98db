import { digestOf } from "../digest.ts";
import { isObject, parseUnrepeated } from "../json.ts";
import { cachedRecord, isCached, type Operation, OPERATION_RECORDS } from "../spec/operations.ts";

/**
 * What the body of a success means, for comparing answers of several nodes. Two answers mean the same when their parts
 * are the same. A part is named so that it may be logged: ids stand there as digests.
 */
export type Meaning = Readonly<Record<string, string>>;

const OF_INSTRUMENT = cachedRecord("instrument").compared;
const OF_PAGE = cachedRecord("instruments").compared;
/** Begins the name of a part that is an instrument. */
const INSTRUMENT = "instrument ";
const OF_CONTRACT = ["templateId", "contractId", "createdEventBlob", "synchronizerId"];

/**
 * What a success says to this operation. What is not of its form, or gives a key twice, means only itself: parsers differ
 * in which of the two they take.
 */
export function meaningOf(operation: Operation, body: Buffer): Meaning {
  const text = body.toString("utf8");
  const json = parseUnrepeated(text, (source) => new ExactNumber(source));
  const parts = json === undefined ? undefined : partsOf(operation, json);
  return parts ?? { body: digestOf(text) };
}

/** The names of the parts in which two meanings differ, in order, at most `most`. */
export function differences(one: Meaning, other: Meaning, most: number): readonly string[] {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names]
    .filter((name) => one[name] !== other[name])
    .toSorted()
    .slice(0, most);
}

function partsOf(operation: Operation, json: unknown): Meaning | undefined {
  if (operation === "pass_through" || !isRecord(json)) return undefined;
  if (!isCached(operation)) {
    return OPERATION_RECORDS[operation].kind === "factory" ? factoryParts(json) : contextParts(json);
  }
  const { address, compared } = cachedRecord(operation);
  return address === "page" ? pageParts(json, compared) : memberParts(json, compared);
}

function memberParts(json: Record<string, unknown>, names: readonly string[]): Meaning {
  return Object.fromEntries(names.map((name) => [name, digestOf(canonical(json[name]))]));
}

/** A listing's meaning when one more page of it was read: where it was cut does not count. */
export function mergeListing(before: Meaning, page: Meaning): Meaning {
  const merged: Record<string, string> = { ...before };
  for (const [name, digest] of Object.entries(page)) {
    if (OF_PAGE.includes(name)) continue;
    merged[name] = name.startsWith(INSTRUMENT) && Object.hasOwn(merged, name) ? twice(merged[name]!, digest) : digest;
  }
  return merged;
}

/** One that is there twice means something else than one that is there once. */
function twice(first: string, second: string): string {
  return digestOf(first + second);
}

/** Each instrument by its id, whatever the order. */
function pageParts(json: Record<string, unknown>, compared: readonly string[]): Meaning | undefined {
  const { instruments } = json;
  if (!Array.isArray(instruments) || !instruments.every(isRecord)) return undefined;
  const parts: Record<string, string> = memberParts(json, compared);
  for (const each of instruments) {
    const name = `${INSTRUMENT}${digestOf(canonical(each["id"])).slice(0, 12)}`;
    const digest = digestOf(canonical(OF_INSTRUMENT.map((member) => each[member])));
    parts[name] = Object.hasOwn(parts, name) ? twice(parts[name]!, digest) : digest;
  }
  return parts;
}

function factoryParts(json: Record<string, unknown>): Meaning | undefined {
  const { choiceContext } = json;
  const context = isRecord(choiceContext) ? contextParts(choiceContext) : undefined;
  return context && { ...memberParts(json, ["factoryId", "transferKind"]), ...context };
}

/** The data of the choice, and the set of contracts, whatever their order. */
function contextParts(json: Record<string, unknown>): Meaning | undefined {
  const { choiceContextData, disclosedContracts } = json;
  if (!Array.isArray(disclosedContracts) || !disclosedContracts.every(isRecord)) return undefined;
  const contracts = disclosedContracts.map((each) => canonical(OF_CONTRACT.map((member) => each[member])));
  return {
    choiceContextData: digestOf(canonical(choiceContextData)),
    disclosedContracts: digestOf(contracts.toSorted().join(",")),
  };
}

/** A number by its exact value: two that differ beyond what JavaScript can distinguish are not the same. */
class ExactNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = canonicalNumber(text);
  }
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i;
/** A longer exponent could not be calculated with exactly: such a number means only itself. */
const LONGEST_EXPONENT = 15;

/** The same text for each way to write a number: its digits without zeros around them, and one exponent. */
function canonicalNumber(text: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = NUMBER.exec(text) ?? [];
  const written = whole + fraction;
  let end = written.length;
  while (written[end - 1] === "0") end -= 1;
  const digits = written.slice(0, end).replace(/^0+/, "");
  if (digits === "") return "0";
  if (exponent.length > LONGEST_EXPONENT) return text;
  return `${sign}${digits}e${Number(exponent) + whole.length - end}`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return isObject(value) && !(value instanceof ExactNumber);
}

/** The same text for the same value, whatever the order of members and how it was written. */
function canonical(value: unknown): string {
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? "";
  const members = Object.keys(value).toSorted();
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}
