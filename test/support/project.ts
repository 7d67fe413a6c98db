import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";

/** The folder of the project. */
export const ROOT = join(import.meta.dirname, "../..");

export function readText(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** Reads a YAML file, or a JSON one. */
export function readYaml(path: string): unknown {
  return parse(readText(path), { merge: true });
}

/** The block of a page that says which file it is: "```yaml file=gateway.yaml". */
export function blockOf(page: string, file: string): string {
  const [, rest = ""] = readText(page).split(`file=${file}\n`);
  const [block = ""] = rest.split("```");
  if (block === "") throw new Error(`${page} has no block of ${file}`);
  return block;
}
