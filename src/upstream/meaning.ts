import type { TSchema } from "typebox";
import { GatewayError } from "../errors.ts";
import { isObject } from "../json.ts";
import { OPERATION_RECORDS, type PostOperation } from "../spec/operations.ts";
import { SCHEMAS } from "../spec/schemas.ts";
import type { Answer } from "./types.ts";

/**
 * A text that two answers share when they agree: the members of the published schema, in any order, without debug fields and
 * `meta`; of an error its status and what it says. Undefined for an error that is the node's alone.
 */
export function meaningOf(operation: PostOperation, answer: Answer | GatewayError): string | undefined {
  const { status } = answer;
  if (status >= 500 || status === 429) return undefined;
  if (answer instanceof GatewayError) return `${status} ${answer.message}`;
  const { json, body } = answer;
  if (status >= 400) return `${status} ${isObject(json) ? String(json["error"]) : ""}`;
  try {
    return canonical(published(SCHEMAS[OPERATION_RECORDS[operation].answer], json));
  } catch {
    // Too deep to be gone through: it means only itself.
    return body.toString("latin1");
  }
}

/** Keeps what the schema names of a value; all of it where the schema says nothing about members. */
function published(schema: TSchema, value: unknown): unknown {
  const { properties, items } = schema as { properties?: Record<string, TSchema>; items?: TSchema };
  if (items !== undefined && Array.isArray(value)) {
    // The only list there is: disclosedContracts, which is a set.
    return [...new Set(value.map((item) => canonical(published(items, item))))].toSorted();
  }
  const names = Object.keys(properties ?? {});
  if (names.length === 0 || !isObject(value)) return value;
  return Object.fromEntries(names.map((name) => [name, published(properties![name]!, value[name])]));
}

/** Writes the same text for the same value, whatever the order of members and how it was written. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? "";
  const members = Object.keys(value).toSorted();
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}
