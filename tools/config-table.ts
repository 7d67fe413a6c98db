import { asData, isOff } from "../src/config/keys.ts";
import type { Schema } from "../src/config/keys.ts";
import { configSchema } from "../src/config/schema.ts";

type Row = readonly [key: string, byDefault: string, description: string];

function describeDefault(schema: Schema): string {
  if (isOff(schema)) return "_off_";
  if (schema.inherits === true || schema.repeats === true) return "`{}`";
  if (schema.properties !== undefined) return "";
  if (schema.default === undefined) return "_required_";
  if (schema.values !== undefined) return "";
  const text = typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default);
  return `\`${text}\``;
}

/** Where the keys below are, and how their paths begin. */
function stepBelow(path: string, schema: Schema): readonly [Schema, string] {
  if (schema.values !== undefined) return [schema.values, `${path}.<name>`];
  return schema.items?.properties === undefined ? [schema, path] : [schema.items, `${path}[]`];
}

function listRows(path: string, schema: Schema): Row[] {
  const restart = schema.restart === true ? " _Takes effect at the next start._" : "";
  const description = `${schema.description ?? ""}${restart}`.replaceAll("|", String.raw`\|`);
  const row: Row = [`\`${path}\``, describeDefault(schema), description];
  if (schema.inherits === true || schema.repeats === true) return [row];
  const [below, prefix] = stepBelow(path, schema);
  const keys = Object.entries(below.properties ?? {});
  return [row, ...keys.flatMap(([key, keySchema]) => listRows(`${prefix}.${key}`, keySchema))];
}

/** Every key of the configuration with its default and what it does, as a Markdown table. */
export function renderConfigTable(): string {
  const rows = Object.entries(asData(configSchema).properties ?? {}).flatMap(([key, schema]) => listRows(key, schema));
  const lines = rows.map((row) => `| ${row.join(" | ")} |`);
  return ["| key | default | what it does |", "| --- | --- | --- |", ...lines].join("\n");
}
