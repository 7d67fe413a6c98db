// `npm run generate` writes what is made of code. With --check it writes nothing, says which file is not in sync, and exits 1.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { chartRules, valuesSchema } from "./chart.ts";
import { configJsonSchema, keysTable } from "./config-reference.ts";
import { dashboard } from "./dashboard.ts";
import { errorTables } from "./errors-table.ts";
import { metricsPage } from "./metrics-page.ts";

/** Files, and what is in them: made from the text that is there, of which a page keeps what was written by hand. */
const FILES: Readonly<Record<string, (now: string) => string>> = {
  "config/gateway.schema.json": () => `${JSON.stringify(configJsonSchema(), undefined, 2)}\n`,
  "config/grafana/dashboard.json": dashboard,
  "config/helm/files/dashboard.json": dashboard,
  "config/helm/files/rules.yaml": chartRules,
  "config/helm/values.schema.json": valuesSchema,
  "docs/configuration.md": (now) => between(now, "keys", keysTable()),
  "docs/errors.md": (now) => between(now, "errors", errorTables()),
  "docs/metrics.md": metricsPage,
};

/** A page with `content` between its two marks. */
function between(page: string, mark: string, content: string): string {
  const [begin, end] = [`<!-- ${mark}:begin -->`, `<!-- ${mark}:end -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from === -1 || to < from) throw new Error(`a page lacks ${begin} or ${end}`);
  return `${page.slice(0, from + begin.length)}\n\n${content}\n\n${page.slice(to)}`;
}

const { values } = parseArgs({ options: { check: { type: "boolean", default: false } } });
const root = join(import.meta.dirname, "..");

for (const [name, make] of Object.entries(FILES)) {
  const file = join(root, name);
  const now = existsSync(file) ? readFileSync(file, "utf8") : "";
  const then = make(now);
  if (then === now) continue;
  console.log(values.check ? `${name} is not in sync: npm run generate` : `wrote ${name}`);
  if (values.check) {
    process.exitCode = 1;
    continue;
  }
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, then);
}
