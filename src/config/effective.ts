import { hash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { IsOptional } from "typebox";
import type { Schema } from "./keys.ts";
import type { LoadedConfig } from "./loaded.ts";
import { type Config, configSchema } from "./schema.ts";
import { redactLogin } from "./urls.ts";

/** The effective configuration as it is written in the file, with `…` for secrets. */
export function effectiveConfig(config: Config): object {
  return written(configSchema as Schema, config) as object;
}

/** Twelve hex digits that stand for {@link effectiveConfig}. Replicas of one machine differ in `operations.port` alone. */
export function digestOf(config: Config): string {
  const common = effectiveConfig({ ...config, operations: { ...config.operations, port: 0 } });
  return hash("sha256", JSON.stringify(common)).slice(0, 12);
}

/** A value as it is written in the file, without secrets; undefined where the key is left out. */
function written(schema: Schema, value: unknown): unknown {
  // Without a word, the default would be read.
  if (value === undefined) return IsOptional(schema) && schema.default !== undefined ? "off" : undefined;
  if (isGroup(schema)) {
    const keys = keysOf(schema, value).map(([key, child, inner]) => [key, written(child, inner)] as const);
    return Object.fromEntries(keys.filter(([, inner]) => inner !== undefined));
  }
  if (schema.items !== undefined) return (value as unknown[]).map((item) => written(schema.items!, item));
  if (schema.secret === true) return "…";
  if (schema.secret === "login") return redactLogin(value as string);
  return schema.write === undefined ? value : schema.write(value as never);
}

function isGroup(schema: Schema): boolean {
  return schema.properties !== undefined || schema.patternProperties !== undefined;
}

type Values = Readonly<Record<string, unknown>>;

/** The keys of a group, with the schema and the value of each. */
function keysOf({ properties, patternProperties = {} }: Schema, value: unknown): [string, Schema, unknown][] {
  const values = value as Values;
  if (properties !== undefined) return Object.entries(properties).map(([key, child]) => [key, child, values[key]]);
  const [each = {}] = Object.values(patternProperties);
  return Object.entries(values).map(([key, inner]) => [key, each, inner]);
}

/** One key in which two configurations differ. */
interface Change {
  /** `cache.ttl.info`, `upstreams[amulet].timeout`, or the path of a file with another text. */
  readonly path: string;
  /** Value as it is written in the file, secrets as `…`; absent where the key is. */
  readonly before?: unknown;
  readonly after?: unknown;
}

interface Leaf {
  readonly value: unknown;
  readonly shown: unknown;
  /** Whether a file without the key says the same: by the schema or, for an upstream's `cache`, by the global one. */
  readonly isDefault: boolean;
}

/** Lists what changed from one configuration to another, texts of files that both name included. */
export function changesOf(before: LoadedConfig, after: LoadedConfig): Change[] {
  const [old, now] = [leavesOf(before.config), leavesOf(after.config)];
  const paths = [...new Set([...old.keys(), ...now.keys()])];
  const changed = paths.filter((path) => {
    const [was, is] = [old.get(path), now.get(path)];
    const isLeft = was?.isDefault !== false && is?.isDefault !== false;
    return !isLeft && !isDeepStrictEqual(was?.value, is?.value);
  });
  // A file that only one of them names shows as the change of its key.
  const files = [...before.texts].flatMap(([file, text]) => ((after.texts.get(file) ?? text) === text ? [] : [file]));
  const areOtherKeys = !changed.includes("clients.keysFile") && !isDeepStrictEqual(before.keys, after.keys);
  if (areOtherKeys) files.push("clients.keysFile");
  const shown = changed.map((path) => ({ path, before: old.get(path)?.shown, after: now.get(path)?.shown }));
  return [...shown, ...files.map((path) => ({ path }))];
}

/** Every key that has a value. */
function leavesOf(config: Config): Map<string, Leaf> {
  const leaves = new Map<string, Leaf>();
  const collect = (schema: Schema, value: unknown, path: string, shared: unknown): void => {
    if (value !== undefined && isGroup(schema)) {
      const others = (schema.inherits === true ? config.cache : shared) as Values | undefined;
      const begin = path === "" ? "" : `${path}.`;
      if (IsOptional(schema)) leaves.set(path, { value: "on", shown: "on", isDefault: false });
      for (const [key, child, inner] of keysOf(schema, value)) collect(child, inner, begin + key, others?.[key]);
    } else if (Array.isArray(value) && schema.items?.properties !== undefined) {
      const names = value.map((item: { name?: string; issuer?: string }) => item.name ?? item.issuer);
      leaves.set(path, { value: names, shown: names, isDefault: names.length === 0 });
      for (const [index, name] of names.entries()) collect(schema.items, value[index], `${path}[${name}]`, undefined);
    } else {
      const shown = written(schema, value);
      // A key that an upstream has from the global cache changes with that.
      const byDefault = shared === undefined ? schema.default : written(schema, shared);
      if (shown === undefined) return;
      leaves.set(path, { value: value ?? shown, shown, isDefault: isDeepStrictEqual(shown, byDefault) });
    }
  };
  collect(configSchema as Schema, config, "", undefined);
  return leaves;
}
