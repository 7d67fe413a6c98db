import { readFileSync, accessSync, constants, statSync } from "node:fs";
import { resolve } from "node:path";
import { Value } from "typebox/value";
import { forms } from "./forms.ts";
import type { FormName } from "./forms.ts";
import type { Schema } from "./keys.ts";
import { suggest } from "./suggestion.ts";
import { formatDuration, formatSize } from "./units.ts";

/** A value, or why it is none. */
export type Outcome = { readonly value: unknown } | { readonly fault: string };

/** A scalar of the file. */
export interface Given {
  readonly value: unknown;
  /** It came from the environment, so that numbers and booleans arrive as text. */
  readonly replaced: boolean;
}

/** Forms whose values may hold, or be, a secret: messages do not repeat them. */
const UNSPOKEN: ReadonlySet<FormName> = new Set(["nodeUrl", "endpointUrl", "proxyUrl", "redisUrl", "secret"]);

const SPOKEN_LENGTH = 60;

function speak(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > SPOKEN_LENGTH ? `${text.slice(0, SPOKEN_LENGTH)}…` : text;
}

/** Text from the environment as the number or boolean that the schema wants, where it looks like one. */
function coerce(schema: Schema, text: string): unknown {
  const types = [schema, ...(schema.anyOf ?? [])].map(({ type }) => type);
  if (types.some((type) => type === "integer" || type === "number") && /^-?[0-9]+(\.[0-9]+)?$/.test(text)) {
    return Number(text);
  }
  if (types.includes("boolean") && (text === "true" || text === "false")) return text === "true";
  return text;
}

function findFileFault(file: string, mustHold: boolean): string | undefined {
  try {
    if (!statSync(file).isFile()) return `${file} is not a file`;
    accessSync(file, constants.R_OK);
    return mustHold && readFileSync(file, "utf8").trim() === "" ? `${file} is empty` : undefined;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    return code === "ENOENT" ? `there is no file ${file}` : `${file} cannot be read (${String(code)})`;
  }
}

function readFormed(schema: Schema & { form: FormName }, given: Given, folder: string): Outcome {
  const form = forms[schema.form];
  const isMeasure = schema.form === "duration" || schema.form === "size";
  if (typeof given.value !== "string" && !isMeasure) return { fault: "must be text: put it in quotes" };
  const text = String(given.value);
  const fault = form.findFault(text);
  if (fault !== undefined) return { fault: UNSPOKEN.has(schema.form) ? fault : `${speak(given.value)} ${fault}` };
  const value = form.parse(text);
  if (schema.form === "file" || schema.form === "secretFile") {
    const file = resolve(folder, text);
    const fault = findFileFault(file, schema.form === "secretFile");
    return fault === undefined ? { value: file } : { fault };
  }
  const write = schema.form === "size" ? formatSize : formatDuration;
  if (schema.least !== undefined && Number(value) < schema.least) {
    return { fault: `must be at least ${write(schema.least)}` };
  }
  if (schema.most !== undefined && Number(value) > schema.most) {
    return { fault: `must be at most ${write(schema.most)}` };
  }
  return { value };
}

/** The value of a scalar key, checked against its schema; relative files are taken from `folder`. */
export function readLeaf(schema: Schema, given: Given, folder: string): Outcome {
  const { form } = schema;
  if (form !== undefined) return readFormed({ ...schema, form }, given, folder);
  const value = given.replaced ? coerce(schema, String(given.value)) : given.value;
  if (Value.Check(schema, value)) return { value };
  if (schema.type === "string" && typeof value !== "string") return { fault: "must be text: put it in quotes" };
  const hint = typeof value === "string" ? suggest(value, schema.enum ?? []) : "";
  return { fault: `must be ${schema.expected}, not ${speak(value)}${hint}` };
}
