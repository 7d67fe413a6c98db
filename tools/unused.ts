// The step of `npm run check` that names what nothing in src uses: a configuration key, a counted metric, an error. It looks for
// names alone, so that a key is overlooked whose name stands for something else, too.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ERRORS } from "../src/error-table.ts";
import { FAMILIES, type Family } from "../src/observe/metrics-table.ts";
import { keyRows } from "./config-reference.ts";

/** Files that say what there is; to be named in another one is to be used. */
const TABLES = new Set(["config/schema.ts", "config/upstream-schema.ts", "error-table.ts", "observe/metrics-table.ts"]);

const src = join(import.meta.dirname, "../src");
const files = globSync("**/*.ts", { cwd: src }).filter((file) => !TABLES.has(file));
const text = files.map((file) => readFileSync(join(src, file), "utf8")).join("\n");

const keys = keyRows()
  .filter(({ isGroup }) => !isGroup)
  .map(({ key }) => key);
const counted = Object.entries<Family>(FAMILIES).flatMap(([name, { read }]) => (read === undefined ? [name] : []));

const unused = [
  ...keys.filter((key) => !isRead(key.split(".").at(-1)!)).map((key) => `the key ${key} is never read`),
  ...counted.filter((name) => !isQuoted(name)).map((name) => `the metric ${name} is never counted`),
  ...Object.keys(ERRORS)
    .filter((code) => !isQuoted(code))
    .map((code) => `the error ${code} is never thrown`),
];
for (const line of unused) console.log(line);
if (unused.length > 0) process.exitCode = 1;

/** As a property, or taken out of an object. */
function isRead(name: string): boolean {
  return new RegExp(`\\.${name}\\b|[{,]\\s*${name}\\s*[,:=}]`).test(text);
}

function isQuoted(name: string): boolean {
  return text.includes(`"${name}"`);
}
