import { resolve } from "node:path";
import { IsOptional, type TSchema } from "typebox";
import { Check, Errors } from "typebox/schema";
import * as yaml from "yaml";
import { printable } from "../json.ts";
import type { Schema } from "./keys.ts";
import { MAX_KEYS_FILE } from "./keys-file.ts";
import { type Problem, suggest } from "./problem.ts";
import { type ReferenceSource, replaceReferences } from "./references.ts";

/** Stands for a secret that cannot be read, for commands that need none. */
export const UNREADABLE = "unreadable";

/** Advice about a value that YAML takes for something else. */
export const QUOTE_IT = "a value with special signs belongs in single quotes";

const MAX_PROBLEMS = 1_000;

interface ReaderOptions {
  readonly document: yaml.Document;
  readonly lines: yaml.LineCounter;
  /** Relative paths begin here. */
  readonly folder: string;
  readonly references: ReferenceSource;
  readonly isTolerant?: boolean;
}

/** Reads a document by its schema: references, defaults, checks, decoded values, and where each of them stands. */
export class Reader {
  readonly problems: Problem[] = [];
  /** Texts of the files whose paths are values, by absolute path. */
  readonly texts = new Map<string, string>();
  private readonly offsets = new Map<string, number>();
  private readonly options: ReaderOptions;

  constructor(options: ReaderOptions) {
    this.options = options;
  }

  /** Reports a problem with the value at `path`, at its place or that of what is around it. */
  report(path: string, message: string): void {
    let key = path;
    while (key !== "" && !this.offsets.has(key)) key = key.slice(0, Math.max(key.search(/(?:\.[^.[]*|\[\d+\])$/), 0));
    this.reportAt(this.offsets.get(key) ?? 0, path, message);
  }

  reportAt(offset: number, path: string, message: string): void {
    if (this.problems.length === MAX_PROBLEMS) return;
    const { line, col: column } = this.options.lines.linePos(offset);
    // Without a text, or with an empty one, there are no lines.
    this.problems.push({ ...(line > 0 && { line, column }), path: printable(path), message });
  }

  /** The value of what stands at `path`; undefined where it is off, inherited, or has a problem. */
  read(schema: Schema, given: unknown, path: string, isInherited = false): unknown {
    const inherits = isInherited || schema.inherits === true;
    const node = this.follow(given, path);
    if (node === undefined) return this.readAbsent(schema, path, inherits);
    const isGroup = yaml.isMap(node) && (schema.properties ?? schema.patternProperties) !== undefined;
    if (isGroup) return this.readGroup(schema, node, path, inherits);
    // A group is pointed at by its key, anything else by its value.
    this.place(path, node);
    if (yaml.isSeq(node) && schema.items !== undefined) return this.readList(schema, node.items, path);
    if (yaml.isScalar(node)) return this.readScalar(schema, node.value, path);
    return this.report(path, `must be ${schema.expected}`);
  }

  private place(path: string, node: unknown): void {
    if (yaml.isNode(node) && node.range) this.offsets.set(path, node.range[0]);
  }

  /** A node, behind its alias; undefined where there is nothing. */
  private follow(given: unknown, path: string): yaml.Node | undefined {
    const node = yaml.isAlias(given) ? given.resolve(this.options.document) : given;
    if (yaml.isAlias(given) && node === undefined) {
      this.place(path, given);
      this.report(path, `there is no such anchor before this; ${QUOTE_IT}`);
    }
    // With an anchor (&) it may be a secret without quotes, which must not be off for that.
    const isNothing = yaml.isScalar(node) && node.value === null && node.anchor === undefined;
    return yaml.isNode(node) && !isNothing ? node : undefined;
  }

  private readAbsent(schema: Schema, path: string, inherits: boolean): unknown {
    if (inherits) return undefined;
    const { default: byDefault } = schema;
    if (typeof byDefault === "object") return this.read(schema, this.options.document.createNode(byDefault), path);
    if (byDefault !== undefined) return this.readScalar(schema, byDefault, path);
    if (IsOptional(schema)) return undefined;
    if (schema.properties !== undefined) return this.readGroup(schema, undefined, path, false);
    return this.report(path, `is missing: it must be ${schema.expected}`);
  }

  private readGroup(schema: Schema, map: yaml.YAMLMap | undefined, path: string, inherits: boolean): object {
    const known = new Map(Object.entries(schema.properties ?? {}));
    const [pattern, named] = Object.entries(schema.patternProperties ?? {})[0] ?? [];
    const given = new Map<string, unknown>();
    for (const { key, value } of map?.items ?? []) {
      if (this.problems.length === MAX_PROBLEMS) break;
      const name = yaml.isScalar(key) ? String(key.value) : "";
      const offset = yaml.isNode(key) ? (key.range?.[0] ?? 0) : 0;
      if (named !== undefined && new RegExp(pattern!).test(name)) known.set(name, named);
      // A key without so much as a colon may be the rest of a secret that has a comma.
      if (value === null) this.reportAt(offset, path, `this is no key: ${QUOTE_IT}`);
      else if (!known.has(name)) this.reportAt(offset, keyPath(path, name), whyUnknown(name, schema));
      else if (given.has(name)) this.reportAt(offset, keyPath(path, name), "is given twice");
      else given.set(name, value);
      if (given.get(name) === value) this.place(keyPath(path, name), key);
    }
    const values: Record<string, unknown> = {};
    for (const [name, child] of known) {
      const value = this.read(child, given.get(name), keyPath(path, name), inherits);
      if (value !== undefined) values[name] = value;
    }
    return values;
  }

  private readList({ items = {}, minItems = 0, maxItems = Infinity }: Schema, list: unknown[], path: string): unknown {
    if (list.length < minItems) return this.report(path, "is empty: give at least one");
    if (list.length > maxItems) return this.report(path, `has ${list.length} items: at most ${maxItems} are allowed`);
    return list.map((item, index) => {
      this.place(`${path}[${index}]`, item);
      return this.read(items, item, `${path}[${index}]`);
    });
  }

  private readScalar(schema: Schema, given: unknown, path: string): unknown {
    const { references, isTolerant, folder } = this.options;
    const { text, isReplaced, faults } = replaceReferences(typeof given === "string" ? given : "", references);
    if (faults.length > 0 && isTolerant === true && schema.secret !== undefined) {
      return schema.secret === "login" ? `redis://${UNREADABLE}` : UNREADABLE;
    }
    for (const fault of faults) this.report(path, fault);
    if (faults.length > 0) return undefined;
    const value = isReplaced ? typed(schema, text) : typeof given === "string" ? text : given;
    const isOff = value === "off" || value === false || (isReplaced && value === "false");
    const takesOff = IsOptional(schema) || schema.off !== undefined;
    // A secret from elsewhere may be any word.
    if (isOff && takesOff && !(isReplaced && schema.secret === true)) return schema.off;
    const fault = findFault(schema, value);
    if (fault !== undefined) return this.report(path, fault);
    const parsed = schema.parse === undefined ? value : schema.parse(value as string);
    return schema.file === undefined ? parsed : this.readFile(schema.file, resolve(folder, parsed as string), path);
  }

  private readFile(findFault: (text: string) => string | undefined, file: string, path: string): string {
    const { references, isTolerant } = this.options;
    if (isTolerant === true) return file;
    try {
      const text = references.readFile(file, MAX_KEYS_FILE);
      const fault = findFault(text);
      if (fault !== undefined) throw new Error(`the file ${file} ${fault}`);
      this.texts.set(file, text);
    } catch (error) {
      this.report(path, (error as Error).message);
    }
    return file;
  }
}

function keyPath(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

function whyUnknown(name: string, { properties, expected }: Schema): string {
  return properties === undefined ? `must be ${expected}` : `unknown key${suggest(name, Object.keys(properties))}`;
}

/** Text that a reference gave, as the number or the boolean that the key wants. */
function typed({ type }: Schema, text: string): unknown {
  if ((type === "integer" || type === "number") && /^-?[0-9]+(?:\.[0-9]+)?$/.test(text)) return Number(text);
  return type === "boolean" && /^(?:true|false)$/.test(text) ? text === "true" : text;
}

/** Finds why a single value is not what its key wants. */
function findFault(schema: Schema, value: unknown): string | undefined {
  if (Check(schema as TSchema, value)) return undefined;
  const isTextLike = schema.type === "string" && typeof value !== "string" && Check(schema as TSchema, String(value));
  if (isTextLike) return "must be text: put it in quotes";
  const own = Errors(schema as TSchema, value)[1].find(({ keyword }) => keyword === "~refine")?.message;
  const hint = typeof value === "string" ? suggest(value, schema.enum ?? []) : "";
  return own ?? `must be ${schema.expected}${hint}`;
}
