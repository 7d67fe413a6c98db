import { stringify } from "yaml";
import { escapeReferences } from "./environment.ts";
import { notations } from "./notations.ts";
import type { Notation } from "./notations.ts";
import { asData } from "./keys.ts";
import type { Schema } from "./keys.ts";
import { configSchema } from "./schema.ts";
import type { Config } from "./schema.ts";
import { isObject } from "../json.ts";

/** `value` as it is in the file, as data, with every secret replaced by `***`. */
export function present(schema: Schema, value: unknown): unknown {
  const { properties, items, values: named, notation } = alternativeFor(schema, value);
  if (properties !== undefined) {
    const values = value as Readonly<Record<string, unknown>>;
    const keys = Object.entries(properties).filter(([key]) => values[key] !== undefined);
    return Object.fromEntries(keys.map(([key, keySchema]) => [key, present(keySchema, values[key])]));
  }
  if (named !== undefined) {
    const entries = Object.entries(value as Readonly<Record<string, unknown>>);
    return Object.fromEntries(entries.map(([name, item]) => [name, present(named, item)]));
  }
  if (items !== undefined) return (value as readonly unknown[]).map((item) => present(items, item));
  if (notation !== undefined) return escapeReferences((notations[notation] as Notation<unknown>).format(value));
  return typeof value === "string" ? escapeReferences(value) : value;
}

/** Of a key that takes text or a group of keys, the one that `value` is. */
function alternativeFor(schema: Schema, value: unknown): Schema {
  const isGroup = isObject(value);
  return schema.anyOf?.find(({ properties, notation }) => (isGroup ? properties : notation) !== undefined) ?? schema;
}

/** A tier without `requests` has no window of them: by itself, the default of `per` would be refused. */
function withoutIdleWindows(config: Config): unknown {
  const { clients } = config;
  if (clients === undefined) return config;
  const tiers = Object.entries(clients.tiers).map(([name, tier]) => {
    return [name, tier.requests === undefined ? { ...tier, per: undefined } : tier] as const;
  });
  return { ...config, clients: { ...clients, tiers: Object.fromEntries(tiers) } };
}

/** The effective configuration as data as it is in the file: every key that is on, secrets redacted. */
export function presentConfig(config: Config): unknown {
  return present(asData(configSchema), withoutIdleWindows(config));
}

/** The effective configuration as YAML: every key that is on, secrets redacted. Parsing it gives the same again. */
export function printConfig(config: Config): string {
  return stringify(presentConfig(config), { lineWidth: 0, aliasDuplicateObjects: false });
}
