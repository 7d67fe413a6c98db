import { resolve } from "node:path";
import { Check } from "typebox/schema";
import { notations } from "./notations.ts";
import type { FileContent, Notation, NotationName } from "./notations.ts";
import type { Schema } from "./keys.ts";
import { suggest } from "./problem.ts";
import { versionOf } from "./watched-files.ts";
import { faultOfFile, readTextFile } from "./text-file.ts";
import { formatDuration, formatSize } from "../units.ts";

/** A value, or why there is no value; both where the value is good and the file that it names is not. */
export type Outcome =
  | { readonly value: unknown; readonly file?: NamedFile }
  | { readonly value?: undefined; readonly fault: string };

/** A file that a key names, as it was when it was looked at. */
export interface NamedFile {
  readonly path: string;
  /** See {@link versionOf}. */
  readonly version: string;
  /** What is wrong with it, as a sentence. */
  readonly fault: string | undefined;
}

/** A scalar of the file. */
export interface Given {
  readonly value: unknown;
  /** It came from the environment, so that numbers and booleans arrive as text. */
  readonly replaced: boolean;
}

/** Notations whose values may hold, or be, a secret: messages do not repeat them. */
const UNSPOKEN: ReadonlySet<NotationName> = new Set([
  "nodeUrl",
  "endpointUrl",
  "listUrl",
  "proxyUrl",
  "redisUrl",
  "jwksUrl",
  "hostPort",
  "secret",
  "token",
  "digest",
]);

const SPOKEN_LENGTH = 60;

/**
 * A value as a message may repeat it: not what the environment supplied, which may be a secret that got into the wrong
 * key, nor what looks like a URL with a login.
 */
export function speak({ value, replaced }: Given): string {
  if (replaced) return "what the environment gives";
  const text = JSON.stringify(value) ?? String(value);
  if (text.includes("@")) return "what is given";
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

function lookAt(path: string, { replaced }: Given, content: FileContent): NamedFile {
  const name = replaced ? "the file that the environment names" : path;
  const version = versionOf(path);
  const faulty = (fault: string): NamedFile => ({ path, version, fault });
  try {
    const text = readTextFile(path);
    const fault = text === "" ? "is empty" : content.findFault(text);
    return { path, version, fault: fault === undefined ? undefined : `${name} ${fault}` };
  } catch (error) {
    const why = faultOfFile(error);
    if (why !== "is not there") return faulty(`${name} ${why}`);
    return faulty(replaced ? `there is no file where the environment says` : `there is no file ${name}`);
  }
}

function readNotation(schema: Schema & { notation: NotationName }, given: Given, folder: string): Outcome {
  const notation: Notation<unknown> = notations[schema.notation];
  const isMeasure = schema.notation === "duration" || schema.notation === "size";
  if (typeof given.value !== "string" && !isMeasure) return { fault: "must be text: put it in quotes" };
  const text = String(given.value);
  const fault = notation.findFault(text);
  if (fault !== undefined) return { fault: UNSPOKEN.has(schema.notation) ? fault : `${speak(given)} ${fault}` };
  const value = notation.parse(text);
  if (notation.content !== undefined) {
    const path = resolve(folder, text);
    return { value: path, file: lookAt(path, given, notation.content) };
  }
  if (notation.isPath === true) return { value: resolve(folder, text) };
  const write = schema.notation === "size" ? formatSize : formatDuration;
  if (schema.least !== undefined && Number(value) < schema.least) {
    return { fault: `must be at least ${write(schema.least)}` };
  }
  if (schema.most !== undefined && Number(value) > schema.most) {
    return { fault: `must be at most ${write(schema.most)}` };
  }
  return { value };
}

/** The value of a scalar key, checked against its schema; relative files are taken from `folder`. */
export function parseScalar(schema: Schema, given: Given, folder: string): Outcome {
  const { notation } = schema;
  if (notation !== undefined) return readNotation({ ...schema, notation }, given, folder);
  const value = given.replaced ? coerce(schema, String(given.value)) : given.value;
  if (Check(schema, value)) return { value };
  if (schema.type === "string" && typeof value !== "string") return { fault: "must be text: put it in quotes" };
  const hint = typeof value === "string" ? suggest(value, schema.enum ?? []) : "";
  return { fault: `must be ${schema.expected}, not ${speak({ ...given, value })}${hint}` };
}
