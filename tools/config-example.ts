import { stringify } from "yaml";
import { asData, isOff } from "../src/config/keys.ts";
import type { Schema } from "../src/config/keys.ts";
import { configSchema } from "../src/config/schema.ts";

const WIDTH = 110;

const HEADER = `# yaml-language-server: $schema=./gateway.schema.json
#
# Configuration of Registry Gateway: every key with its default. Only upstreams must be given; anything else may be left
# out. Keys behind a "#" without a space are off by default: what follows is an example.
#
# \${NAME} and \${NAME:-default} are replaced from the environment (in braces and before numbers they need quotes:
# port: "\${PORT}"); $\${ is a literal \${. Durations: 250ms, 30s, 10m, 1h. Sizes: 512B, 64KiB, 1MiB.
# "registry-gateway check --config FILE" reports every mistake with its line.
`;

const SECOND_UPSTREAM = `
  - name: usdx
    urls: ["https://registry.example/usdx"]
`;

function comment(text: string): string[] {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1)!;
    if (line !== "" && line.length + word.length >= WIDTH) lines.push(word);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return lines.map((line) => `# ${line}`);
}

function writeValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => JSON.stringify(item)).join(", ")}]`;
  return stringify(value, { lineWidth: 0, defaultStringType: "PLAIN" }).trim();
}

function indent(lines: readonly string[]): string[] {
  return lines.map((line) => `  ${line}`);
}

function renderList(key: string, items: Schema): string[] {
  const lines = renderKeys(items);
  const first = lines.findIndex((line) => !line.startsWith("#"));
  const rest = indent(lines.slice(first + 1));
  return [`${key}:`, ...indent([...lines.slice(0, first), `- ${lines[first]}`, ...rest])];
}

function renderKey(key: string, schema: Schema): string[] {
  if (schema.inherits === true || schema.repeats === true) return [`${key}: {}`];
  if (schema.properties !== undefined) return [`${key}:`, ...indent(renderKeys(schema))];
  if (schema.values !== undefined) {
    return [`${key}:`, ...indent([`${schema.names?.example}:`, ...indent(renderKeys(schema.values))])];
  }
  if (schema.items?.properties !== undefined && schema.examples === undefined) return renderList(key, schema.items);
  return [`${key}: ${writeValue(schema.default ?? schema.examples?.[0])}`];
}

function renderKeys(schema: Schema): string[] {
  const lines: string[] = [];
  for (const [key, keySchema] of Object.entries(schema.properties ?? {})) {
    const mark = isOff(keySchema) ? "#" : "";
    if (keySchema.description !== undefined) lines.push(...comment(keySchema.description));
    for (const line of renderKey(key, keySchema)) lines.push(`${mark}${line}`);
  }
  return lines;
}

/** A configuration file that shows every key with its default; it is itself a good configuration. */
export function renderConfigExample(): string {
  const groups = Object.entries(asData(configSchema).properties ?? {}).map(([key, schema]) =>
    renderKeys({ properties: { [key]: schema } }).join("\n"),
  );
  return `${HEADER}\n${groups.join("\n\n")}\n${SECOND_UPSTREAM}`;
}
