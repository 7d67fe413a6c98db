import { isAlias, isMap, isNode, isScalar, isSeq } from "yaml";
import type { Node, Pair, YAMLMap, YAMLSeq } from "yaml";
import { substitute } from "./environment.ts";
import { suggest, whyGone } from "./problem.ts";
import { isOff } from "./keys.ts";
import type { Schema } from "./keys.ts";
import { parseScalar } from "./scalar.ts";
import type { Given } from "./scalar.ts";
import { QUOTE_IT, type Reading } from "./reading.ts";

/** What a key is read as that is absent or has the value `off`, and has no default. */
const OFF = Symbol("off");

/** A value to be read: its schema and its key. */
interface Place {
  readonly schema: Schema;
  readonly path: string;
  /** Absent keys stay absent: their values come from elsewhere. */
  readonly inherits?: boolean;
}

function keyPath(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

/**
 * What stands at a key or list item: a node, or nothing (`key:` without a value). An alias is what it stands for. A value
 * that is only an anchor is a node: it may be a secret without quotes, which must not be off for that.
 */
function followAlias(reading: Reading, node: unknown, path: string): Node | null | undefined {
  const target = isAlias(node) ? node.resolve(reading.document) : ((node ?? null) as Node | null);
  if (isAlias(node) && target === undefined) {
    reading.reportAt(node.range?.[0] ?? 0, path, `there is no such anchor before this; ${QUOTE_IT}`);
  }
  return isScalar(target) && target.value === null && target.anchor === undefined ? null : target;
}

/** The scalar with the environment's variables put in; undefined, with a problem, when a reference is wrong. */
function readScalar(reading: Reading, value: unknown, path: string): Given | undefined {
  if (typeof value !== "string") return { value, replaced: false };
  const { text, replaced, faults } = substitute(value, reading.env);
  for (const fault of faults) reading.report(path, fault);
  return faults.length > 0 ? undefined : { value: text, replaced };
}

/** The keys of a map; unknown ones and repeated ones are problems. */
function collectPairs(reading: Reading, { schema, path }: Place, map: YAMLMap | undefined): Map<string, Pair> {
  const known = schema.properties ?? {};
  const found = new Map<string, { pair: Pair; offset: number }>();
  for (const pair of map?.items ?? []) {
    if (!isScalar(pair.key)) continue;
    const key = String(pair.key.value);
    const offset = pair.key.range?.[0] ?? 0;
    const first = found.get(key);
    if (first !== undefined) {
      reading.reportAt(offset, keyPath(path, key), `is given twice, first on line ${reading.lineOf(first.offset)}`);
    } else if (Object.hasOwn(known, key)) {
      found.set(key, { pair, offset });
      reading.place(keyPath(path, key), pair.key);
    } else if (pair.value === null) {
      // A key without so much as a colon may be the rest of a secret that has a comma.
      reading.reportAt(offset, path, `this is no key; ${QUOTE_IT}`);
    } else {
      const fault =
        schema.names === undefined
          ? (whyGone(keyPath(path, key)) ?? `unknown key${suggest(key, Object.keys(known))}`)
          : `the name must be ${schema.names.expected}`;
      reading.reportAt(offset, keyPath(path, key), fault);
    }
  }
  return new Map([...found].map(([key, { pair }]) => [key, pair]));
}

function checkOneOf(reading: Reading, { schema, path }: Place, given: readonly string[]): void {
  for (const names of schema.oneOf ?? []) {
    const chosen = names.filter((name) => given.includes(name));
    const place = chosen[1] === undefined ? path : keyPath(path, chosen[1]);
    if (chosen.length !== 1) reading.report(place, `exactly one of ${names.join(", ")} must be given`);
  }
}

function readGroup(reading: Reading, place: Place, map: YAMLMap | undefined): Record<string, unknown> {
  const { schema, path } = place;
  const inherits = place.inherits === true || schema.inherits === true;
  const pairs = collectPairs(reading, place, map);
  const values: Record<string, unknown> = {};
  const given: string[] = [];
  for (const [key, keySchema] of Object.entries(schema.properties ?? {})) {
    const keyPlace = { schema: keySchema, path: keyPath(path, key), inherits };
    const node = followAlias(reading, pairs.get(key)?.value, keyPlace.path);
    if (node === undefined) continue;
    const value = node === null ? readAbsent(reading, keyPlace) : readValue(reading, keyPlace, node);
    if (value === OFF) continue;
    if (node !== null) {
      given.push(key);
      reading.noteGiven(keyPlace.path);
    }
    if (value !== undefined) values[key] = value;
  }
  checkOneOf(reading, place, given);
  return values;
}

function readAbsent(reading: Reading, place: Place): unknown {
  const { schema, path, inherits } = place;
  if (inherits === true || isOff(schema)) return OFF;
  if (schema.properties !== undefined) return readGroup(reading, place, undefined);
  if (schema.values !== undefined) return {};
  if (schema.default === undefined) {
    reading.report(path, `is missing: it must be ${schema.expected ?? "given"}`);
    return undefined;
  }
  return readDefault(schema);
}

/** A default is given as it is in the file, like any other value. */
function readDefault(schema: Schema): unknown {
  if (Array.isArray(schema.default)) return [...(schema.default as unknown[])];
  const outcome = parseScalar(schema, { value: schema.default, replaced: false }, "/");
  return "value" in outcome ? outcome.value : undefined;
}

/** The groups whose names the file chooses. */
function readNamed(reading: Reading, { schema, path }: Place, map: YAMLMap): Record<string, unknown> {
  const pattern = new RegExp(schema.names!.pattern, "u");
  const names = map.items
    .flatMap(({ key }) => (isScalar(key) ? String(key.value) : []))
    .filter((name) => pattern.test(name));
  const most = schema.maxProperties ?? Infinity;
  if (map.items.length > most) reading.report(path, `has ${map.items.length} names: at most ${most} are allowed`);
  const properties = Object.fromEntries(names.map((name) => [name, schema.values!]));
  return readGroup(reading, { schema: { ...schema, properties }, path }, map);
}

function readList(reading: Reading, { schema, path }: Place, list: YAMLSeq): unknown[] {
  if (list.items.length < (schema.minItems ?? 0)) reading.report(path, "is empty: give at least one");
  const most = schema.maxItems ?? Infinity;
  if (list.items.length > most) reading.report(path, `has ${list.items.length} items: at most ${most} are allowed`);
  return list.items.map((item, index) => {
    const place = { schema: schema.items!, path: `${path}[${index}]` };
    const node = followAlias(reading, item, place.path);
    reading.place(place.path, isNode(item) ? item : null);
    if (node === null) reading.report(place.path, "is empty");
    return node ? readValue(reading, place, node) : undefined;
  });
}

/** The value of `node`, {@link OFF}, or undefined where there is a problem. */
function readValue(reading: Reading, place: Place, node: Node): unknown {
  const { schema, path } = place;
  const isGroup = schema.properties !== undefined || schema.values !== undefined;
  // A group is pointed at by its key, anything else by its value.
  if (!isGroup) reading.place(path, node);
  if (isGroup && isMap(node)) return (schema.values === undefined ? readGroup : readNamed)(reading, place, node);
  const group = schema.anyOf?.find(({ properties }) => properties !== undefined);
  if (group !== undefined && isMap(node)) return readGroup(reading, { schema: group, path }, node);
  const list = [schema, ...(schema.anyOf ?? [])].find(({ items }) => items !== undefined);
  if (list !== undefined && isSeq(node)) return readList(reading, { schema: list, path }, node);
  const given = isScalar(node) ? readScalar(reading, node.value, path) : { value: node, replaced: false };
  if (given === undefined) return undefined;
  if (given.value === "off" && isOff(schema)) return OFF;
  if (!isScalar(node) || isGroup || list === schema) {
    reading.report(path, `must be ${schema.expected ?? (isGroup ? "a group of keys" : "a single value")}`);
    return undefined;
  }
  reading.noteGiven(path, given);
  const chosen = schema.anyOf?.find(({ notation }) => notation !== undefined) ?? schema;
  const outcome = parseScalar(chosen, given, reading.folder);
  if ("fault" in outcome) reading.report(path, outcome.fault);
  else if (outcome.file !== undefined) reading.noteFile(path, outcome.file);
  return outcome.value;
}

/** Reads the whole file as far as it can be read; what is wrong is in the reading's problems. */
export function readRoot(reading: Reading, schema: Schema): Record<string, unknown> | undefined {
  const root = reading.document.contents;
  if (root === null || (isScalar(root) && root.value === null)) {
    reading.report("", "the file is empty: it needs at least upstreams with a name and urls");
    return undefined;
  }
  reading.place("", root);
  if (isMap(root)) return readGroup(reading, { schema, path: "" }, root);
  reading.report("", "must be a group of keys such as upstreams");
  return undefined;
}
