import { asData, type Schema } from "./keys.ts";
import { type Config, configSchema } from "./schema.ts";
import { isObject } from "../json.ts";

/**
 * What `next` can become without a restart: its keys, but for those that take effect at the next start only, which
 * stay as they are in `running`.
 */
export function withoutRestart(running: Config, next: Config): Config {
  return merge(asData(configSchema), running, next) as Config;
}

function merge(schema: Schema, running: unknown, next: unknown): unknown {
  if (schema.restart === true) return running;
  if (schema.properties === undefined || !isObject(running) || !isObject(next)) return next;
  const merged: Record<string, unknown> = {};
  for (const [key, keySchema] of Object.entries(schema.properties)) {
    const value = merge(keySchema, running[key], next[key]);
    // A key that is off is absent: code asks with `in` and `=== undefined` alike.
    if (value !== undefined) merged[key] = value;
  }
  return merged;
}
