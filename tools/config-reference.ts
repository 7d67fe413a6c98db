import { IsOptional } from "typebox";
import type { Schema } from "../src/config/keys.ts";
import { configSchema } from "../src/config/schema.ts";

type Json = Readonly<Record<string, unknown>>;

/** JSON Schema's own keywords; all else in a schema is for the gateway. */
const KEYWORDS = new Set("type enum const pattern minLength minimum maximum minItems maxItems".split(" "));

const REFERENCE = { $ref: "#/$defs/reference" };
const OFF = { $ref: "#/$defs/off" };

function isOff(schema: Schema): boolean {
  return IsOptional(schema) || schema.off !== undefined;
}

function isRequired(schema: Schema): boolean {
  return !IsOptional(schema) && schema.default === undefined && schema.properties === undefined;
}

function mapValues<T>(values: Readonly<Record<string, Schema>>, make: (schema: Schema) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(values).map(([key, schema]) => [key, make(schema)]));
}

/** What a value of a key may be, but for `off` and references. */
function valueOf(schema: Schema, inherits: boolean): Json {
  const { properties, patternProperties, items } = schema;
  const keywords = Object.entries(schema).filter(([key]) => KEYWORDS.has(key));
  const own = Object.fromEntries(keywords);
  if (properties !== undefined) {
    const required = Object.keys(properties).filter((key) => isRequired(properties[key]!));
    const keys = mapValues(properties, (each) => keyOf(each, inherits || schema.inherits === true));
    return { ...own, properties: keys, additionalProperties: false, ...(required.length > 0 && { required }) };
  }
  if (patternProperties !== undefined) {
    const named = mapValues(patternProperties, (each) => keyOf(each, inherits));
    return { ...own, patternProperties: named, additionalProperties: false };
  }
  return items === undefined ? own : { ...own, items: keyOf(items, inherits) };
}

function keyOf(schema: Schema, inherits: boolean): Json {
  const { description, default: byDefault, anyOf = [schema] } = schema as Schema & { readonly anyOf?: Schema[] };
  const values = anyOf.map((each) => valueOf(each, inherits));
  const isGroup = "properties" in values[0]! || "items" in values[0]! || "patternProperties" in values[0]!;
  const forms = [...values, ...(isOff(schema) ? [OFF] : []), ...(isGroup ? [] : [REFERENCE])];
  const about = { description, ...(byDefault !== undefined && !inherits && { default: byDefault }) };
  return forms.length === 1 ? { ...about, ...forms[0] } : { ...about, anyOf: forms };
}

/** The JSON schema of a configuration file, for editors: durations, sizes and rates are text there. */
export function configJsonSchema(): Json {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Registry Gateway",
    ...keyOf(configSchema as Schema, false),
    $defs: {
      off: { description: "Off.", enum: ["off", false] },
      reference: { description: "${NAME}, ${NAME:-default} or ${file:PATH}", type: "string", pattern: "\\$\\{" },
    },
  };
}

interface Row {
  readonly key: string;
  readonly byDefault: string;
  readonly description: string;
  readonly isGroup: boolean;
}

/** Every key of the configuration in the order of the schema; what stands for all of a group is one row. */
export function keyRows(): Row[] {
  const rows: Row[] = [];
  const collect = (schema: Schema, key: string): void => {
    const { properties, patternProperties = {}, items } = schema;
    const words = schema.enum === undefined ? "" : ` One of ${schema.enum.join(", ")}.`;
    const description = `${schema.description ?? ""}${words}`;
    const [named] = Object.values(patternProperties);
    const group = properties ?? named?.properties ?? items?.properties;
    if (key !== "") rows.push({ key, byDefault: defaultOf(schema), description, isGroup: group !== undefined });
    if (schema.inherits === true) return;
    const suffix = named === undefined ? (items === undefined ? "" : "[]") : ".NAME";
    for (const [name, child] of Object.entries(group ?? {}))
      collect(child, key === "" ? name : `${key}${suffix}.${name}`);
  };
  collect(configSchema as Schema, "");
  return rows;
}

function defaultOf(schema: Schema): string {
  const { default: byDefault, properties, inherits } = schema;
  if (inherits === true) return "as `cache`";
  if (byDefault === undefined) return IsOptional(schema) ? "_off_" : properties === undefined ? "_required_" : "";
  return `\`${typeof byDefault === "string" ? byDefault : JSON.stringify(byDefault)}\``;
}

/** The table of all keys, in Markdown. */
export function keysTable(): string {
  const rows = keyRows().map(({ key, byDefault, description }) => {
    return `| \`${key}\` | ${byDefault} | ${description.replaceAll("|", "\\|")} |`;
  });
  return ["| key | default | what it does |", "| --- | --- | --- |", ...rows].join("\n");
}
