// `npm run marks`: figures about the source to steer by. Nothing is refused by them.
import { spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { asData, type Schema } from "../src/config/keys.ts";
import { configSchema } from "../src/config/schema.ts";
import { METRIC_GROUPS } from "../src/observe/metrics/table.ts";
import { countFilesOfWays } from "./marks-of-ways.ts";

/** The folders of src/, each allowed to import from those beside and behind it. */
const DIRECTION = [
  ["main.ts"],
  ["commands"],
  ["gateway"],
  ["operations"],
  ["requests"],
  ["observe"],
  ["clients", "aggregate"],
  ["registry"],
  ["cache", "discovery"],
  ["upstream"],
  ["connections"],
  ["limits"],
  ["sharing", "coordination"],
  ["bodies", "config", "sandbox"],
  ["spec", "words"],
  globSync("*.ts", { cwd: join(import.meta.dirname, "../src") }).filter((name) => name !== "main.ts"),
];

const MOST_LINES_OF_A_FILE = 250;
const MOST_LINES_OF_A_FUNCTION = 60;
const MOST_FIELDS = 12;

const root = join(import.meta.dirname, "..");
const read = (pattern: string) =>
  globSync(pattern, { cwd: root })
    .sort()
    .map((file) => ({ file, text: readFileSync(join(root, file), "utf8") }));
const src = read("src/**/*.{ts,tsx}");
const test = read("test/**/*.{ts,tsx}");

function linesOf(text: string): number {
  return text.split("\n").length - 1;
}

function sumOf(files: readonly { readonly text: string }[]): number {
  return files.reduce((sum, { text }) => sum + linesOf(text), 0);
}

interface Measured {
  readonly name: string;
  readonly size: number;
}

function describe(all: readonly Measured[], most: number): string {
  const sorted = all.toSorted((a, b) => b.size - a.size);
  const beyond = sorted.filter(({ size }) => size > most);
  const [longest] = sorted;
  const names = beyond.map(({ name, size }) => `\n    ${size} ${name}`).join("");
  return `${longest?.size ?? 0}, ${beyond.length} beyond ${most}${names}`;
}

/** Longer functions by name, as the linter counts them: from the first line to the last. */
function longFunctions(): readonly Measured[] {
  const rule = ["-A", "all", "-D", "eslint/max-lines-per-function", "--format", "json", "src"];
  const { stdout } = spawnSync("oxlint", rule, { cwd: root, encoding: "utf8", maxBuffer: 2 ** 28 });
  const { diagnostics } = JSON.parse(stdout.slice(0, stdout.lastIndexOf("}") + 1)) as {
    diagnostics: { message: string; filename: string }[];
  };
  return diagnostics.map(({ message, filename }) => ({
    name: `${filename} ${/`([^`]+)`/.exec(message)?.[1] ?? "a function without a name"}`,
    size: Number(/\((\d+)\)/.exec(message)![1]),
  }));
}

/** The fields of each class: as the formatter leaves them, two spaces in, with neither a bracket nor a body behind. */
function fieldsOfClasses(): readonly Measured[] {
  return src.flatMap(({ file, text }) =>
    [...text.matchAll(/^(?:export )?(?:abstract )?class (\w+)[^\n]*\{\n([\s\S]*?)^\}/gm)].map(([, name, body]) => {
      const fields =
        body!.match(/^ {2}(?!get |set |async |return )(?:[a-z]+ )*#?\w+[?!]?(?:: [^(\n]|: \(| = |;)/gm) ?? [];
      const parameters = body!.match(/constructor\((?:[^)]*)\)/)?.[0].match(/\b(?:private|public|readonly) /g) ?? [];
      return { name: `${file} ${name}`, size: fields.length + parameters.length };
    }),
  );
}

/** The first folder below src/, or the file at its root. */
function roomOf(file: string): string {
  return file.split("/")[1]!;
}

function importsUp(): readonly string[] {
  const level = (room: string) => DIRECTION.findIndex((rooms) => rooms.includes(room));
  const up = new Map<string, number>();
  for (const { file, text } of src) {
    for (const [, target] of text.matchAll(/\bfrom "(\.[^"]+)"/g)) {
      const [from, to] = [roomOf(file), roomOf(join(dirname(file), target!))];
      if (level(from) === -1 || level(to) === -1) throw new Error(`tools/marks.ts does not know ${from} or ${to}`);
      if (from !== to && level(to) < level(from)) up.set(`${from} → ${to}`, (up.get(`${from} → ${to}`) ?? 0) + 1);
    }
  }
  return [...up].map(([way, count]) => `${way} ${count}`);
}

function countKeys(schema: Schema): number {
  if (schema.inherits === true || schema.repeats === true) return 1;
  const below = schema.values ?? (schema.items?.properties === undefined ? schema : schema.items);
  return Object.values(below.properties ?? {}).reduce((sum, key) => sum + countKeys(key), 1);
}

/** Panels of the dashboards that are charts, tables and figures, not rows. */
function countPanels(): number {
  return read("config/grafana/dashboards/*.json").reduce((sum, { text }) => {
    const { panels } = JSON.parse(text) as { panels: { type: string; panels?: object[] }[] };
    return panels.reduce((all, { type, panels: inRow }) => all + (type === "row" ? (inRow?.length ?? 0) : 1), sum);
  }, 0);
}

const ways = process.argv.includes("--fast") ? [] : await countFilesOfWays(root);
const up = importsUp();
const figures: readonly (readonly [string, string | number])[] = [
  ["lines of src (≤ 40000)", sumOf(src)],
  ["files of src", src.length],
  ["lines of test", sumOf(test)],
  ["lines of console, tools", `${sumOf(read("console/**/*.{ts,tsx,css}"))}, ${sumOf(read("tools/**/*.ts"))}`],
  ...ways,
  ["longest function", describe(longFunctions(), MOST_LINES_OF_A_FUNCTION)],
  ["most fields of a class", describe(fieldsOfClasses(), MOST_FIELDS)],
  [
    "longest file of src",
    describe(
      src.map(({ file, text }) => ({ name: file, size: linesOf(text) })),
      MOST_LINES_OF_A_FILE,
    ),
  ],
  ["imports up", `${up.length} pairs of folders${up.map((way) => `\n    ${way}`).join("")}`],
  ["configuration keys", countKeys(asData(configSchema)) - 1],
  ["families of metrics", Object.values(METRIC_GROUPS).reduce((sum, group) => sum + Object.keys(group).length, 0)],
  ["panels", countPanels()],
  ["files of src below 25 lines", src.filter(({ text }) => linesOf(text) < 25).length],
];
for (const [name, figure] of figures) console.log(`${name}: ${figure}`);
