import { isDeepStrictEqual } from "node:util";
import { type Notation, notations } from "./notations.ts";
import { asData } from "./keys.ts";
import type { Schema } from "./keys.ts";
import { present } from "./print.ts";
import { configSchema } from "./schema.ts";
import type { Config } from "./schema.ts";

/** When a changed key takes effect: at the next reload, or at the next start only. */
type Effect = "reload" | "restart";

export interface Change {
  /** The key; upstreams are named, not numbered: `upstreams[amulet].timeout`. */
  readonly path: string;
  /** As in the file, secrets redacted; undefined: off, or not there. */
  readonly before: string | undefined;
  readonly after: string | undefined;
  readonly effect: Effect;
}

/** One key with a value. */
export interface Setting {
  readonly value: unknown;
  /** As in the file, secrets redacted. */
  readonly shown: string;
  readonly effect: Effect;
  /** The value is the path of a file that nobody else should read. */
  readonly isSecretFile: boolean;
  /** The value is the one that the schema has for a key that the file leaves out. */
  readonly isDefault: boolean;
}

type Settings = Map<string, Setting>;

function show(shown: unknown): string {
  if (Array.isArray(shown)) return shown.map(show).join(", ");
  return typeof shown === "string" ? shown : JSON.stringify(shown);
}

interface Part {
  readonly schema: Schema;
  readonly path: string;
  readonly effect: Effect;
}

function collect(settings: Settings, part: Part, value: unknown): Settings {
  const { schema, path } = part;
  const effect = schema.restart === true ? "restart" : part.effect;
  if (value === undefined) return settings;
  const keys = schema.values === undefined ? schema.properties : schemasOf(schema.values, value);
  if (keys === undefined) {
    const isSecretFile = schema.notation !== undefined && notations[schema.notation].content?.isSecret === true;
    const isDefault = schema.default !== undefined && isDeepStrictEqual(value, defaultOf(schema));
    return settings.set(path, { value, shown: show(present(schema, value)), effect, isSecretFile, isDefault });
  }
  const values = value as Readonly<Record<string, unknown>>;
  for (const [key, keySchema] of Object.entries(keys)) {
    collect(settings, { schema: keySchema, path: path === "" ? key : `${path}.${key}`, effect }, values[key]);
  }
  return settings;
}

/** The default of a key, which the schema has as it is in the file, as a value. */
function defaultOf({ default: value, notation, items }: Schema): unknown {
  if (notation !== undefined) return (notations[notation] as Notation<unknown>).parse(value as string);
  return items === undefined || !Array.isArray(value)
    ? value
    : value.map((item: unknown) => defaultOf({ ...items, default: item }));
}

/** The schema of each of the groups that the file names. */
function schemasOf(schema: Schema, value: unknown): Readonly<Record<string, Schema>> {
  return Object.fromEntries(Object.keys(value as object).map((name) => [name, schema]));
}

const { upstreams: upstreamList, ...shared } = asData(configSchema).properties!;
const sharedSchema: Schema = { properties: shared };
const upstreamSchema: Schema = upstreamList!.items!;

/** Every key outside of upstreams that has a value. */
export function settingsOf(config: Config): Settings {
  return collect(new Map(), { schema: sharedSchema, path: "", effect: "reload" }, config);
}

/** Every key of one upstream that has a value; paths begin at the upstream. */
export function upstreamSettingsOf(upstream: Config["upstreams"][number]): Settings {
  return collect(new Map(), { schema: upstreamSchema, path: "", effect: "reload" }, upstream);
}

function compare(before: Settings, after: Settings): Change[] {
  const paths = new Set([...before.keys(), ...after.keys()]);
  return [...paths].flatMap((path) => {
    const [old, now] = [before.get(path), after.get(path)];
    if (isDeepStrictEqual(old?.value, now?.value)) return [];
    const effect = old?.effect ?? now?.effect ?? "reload";
    return [{ path, before: old?.shown, after: now?.shown, effect }];
  });
}

function isSameChange(a: Change, b: Change): boolean {
  return a.path === b.path && a.before === b.before && a.after === b.after;
}

function compareUpstreams(old: Config, now: Config, shared: readonly Change[]): Change[] {
  const earlier = new Map(old.upstreams.map((upstream) => [upstream.name, upstream]));
  const later = new Map(now.upstreams.map((upstream) => [upstream.name, upstream]));
  const changes: Change[] = [];
  for (const name of new Set([...earlier.keys(), ...later.keys()])) {
    const [before, after] = [earlier.get(name), later.get(name)];
    const path = `upstreams[${name}]`;
    if (before === undefined || after === undefined) {
      const urls = [before, after].map((upstream) => upstream?.urls.map(show).join(", "));
      changes.push({ path, before: urls[0], after: urls[1], effect: "reload" });
      continue;
    }
    for (const change of compare(upstreamSettingsOf(before), upstreamSettingsOf(after))) {
      // A key of the global cache changes with it in every upstream: once is enough.
      if (shared.some((other) => isSameChange(change, other))) continue;
      changes.push({ ...change, path: `${path}.${change.path}` });
    }
  }
  const orders = [old.upstreams, now.upstreams].map((upstreams) =>
    upstreams.map(({ name }) => name).filter((name) => earlier.has(name) && later.has(name)),
  );
  const [before, after] = orders.map((names) => names.join(", "));
  if (before !== after) changes.push({ path: "upstreams", before, after, effect: "reload" });
  return changes;
}

/** What changes from `old` to `now`, key by key, and what of it needs a restart. Nothing when they mean the same. */
export function diffConfig(old: Config, now: Config): Change[] {
  const shared = compare(settingsOf(old), settingsOf(now));
  return [...shared, ...compareUpstreams(old, now, shared)];
}

/** The keys whose values are as if the file did not give them: an upstream's `cache` is the global one then. */
export function defaultedKeys(config: Config): string[] {
  const shared = settingsOf(config);
  const own = config.upstreams.flatMap((upstream) =>
    [...upstreamSettingsOf(upstream)].flatMap(([path, { value, isDefault }]) => {
      const global = path.startsWith("cache.") ? shared.get(path) : undefined;
      const isTaken = global === undefined ? isDefault : isDeepStrictEqual(value, global.value);
      return isTaken ? [`upstreams[${upstream.name}].${path}`] : [];
    }),
  );
  return [...[...shared].flatMap(([path, { isDefault }]) => (isDefault ? [path] : [])), ...own];
}
