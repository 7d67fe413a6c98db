import { isObject } from "../src/json.ts";

/** A line of the effective configuration, in the form of the file. */
export interface ConfigLine {
  readonly depth: number;
  /** `upstreams[amulet].timeout` */
  readonly path: string;
  /** The first line of an item of a list. */
  readonly isItem: boolean;
  /** Undefined: an item that is a value by itself. */
  readonly key: string | undefined;
  /** Undefined: what is below is the value. */
  readonly value: string | undefined;
  /** As it would be if the file did not say it. */
  readonly isDefault: boolean;
}

/** The configuration line by line. `defaults` are the paths of `/config`, in which upstreams are named. */
export function configLines(config: unknown, defaults: readonly string[]): ConfigLine[] {
  const known = new Set(defaults);
  const lines: ConfigLine[] = [];
  if (isObject(config)) addKeys(lines, config, { path: "", depth: 0, known, isDefault: false });
  return lines;
}

interface Place {
  readonly path: string;
  readonly depth: number;
  readonly known: ReadonlySet<string>;
  /** What it is a part of is. */
  readonly isDefault: boolean;
}

function addKeys(lines: ConfigLine[], group: object, place: Place, isItem = false): void {
  for (const [i, [key, value]] of Object.entries(group).entries()) {
    const path = place.path === "" ? key : `${place.path}.${key}`;
    const isDefault = place.isDefault || place.known.has(path);
    const below = { ...place, path, isDefault };
    addValue(lines, { key, value, isItem: isItem && i === 0 }, below);
  }
}

interface Named {
  readonly key: string | undefined;
  readonly value: unknown;
  readonly isItem: boolean;
}

function addValue(lines: ConfigLine[], { key, value, isItem }: Named, place: Place): void {
  const { depth, path, isDefault } = place;
  const line = { depth, path, isItem, key, isDefault };
  if (Array.isArray(value) && value.some(isObject)) {
    lines.push({ ...line, value: undefined });
    for (const [i, item] of (value as readonly unknown[]).entries()) {
      const name = isObject(item) && "name" in item ? String(item.name) : String(i);
      const below = { ...place, depth: depth + 1, path: `${path}[${name}]` };
      if (isObject(item)) addKeys(lines, item, below, true);
      else addValue(lines, { key: undefined, value: item, isItem: true }, below);
    }
  } else if (isObject(value) && Object.keys(value).length > 0) {
    lines.push({ ...line, value: undefined });
    addKeys(lines, value, { ...place, depth: depth + 1 });
  } else lines.push({ ...line, value: say(value) });
}

function say(value: unknown): string {
  if (typeof value === "string")
    return /^[\w./*+-][^#]*$/.test(value) && !value.includes(": ") ? value : JSON.stringify(value);
  return JSON.stringify(value) ?? "";
}
