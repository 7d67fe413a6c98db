const LONGEST_NAME = 60;
/** Words of `routing.plain`. */
const RESERVED: ReadonlySet<string> = new Set(["aggregate", "off"]);

/**
 * An alias made of what stands before `::` in an admin, or of a host: it may be a path segment and a metric label, and is none
 * of those that are taken.
 */
export function nameFor(hint: string, taken: ReadonlySet<string>): string {
  const plain = hint
    .split("::", 1)[0]!
    .toLowerCase()
    .replaceAll(/[^a-z0-9_.-]+/g, "-")
    .replaceAll(/^[^a-z0-9]+|-+$/g, "");
  const base = plain.slice(0, LONGEST_NAME) || "registry";
  let name = base;
  for (let i = 2; taken.has(name) || RESERVED.has(name); i += 1) name = `${base}-${i}`;
  return name;
}
