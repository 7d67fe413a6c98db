import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { configJsonSchema } from "./config-reference.ts";

type Json = Readonly<Record<string, unknown>>;

const CONFIG = join(import.meta.dirname, "../config");

/** Groups of values that may have other keys than their defaults: Kubernetes knows which. */
const OPEN: ReadonlySet<string> = new Set([
  "annotations",
  "data",
  "labels",
  "lifecycle",
  "podAnnotations",
  "podSecurityContext",
  "podSpec",
  "resources",
  "securityContext",
]);

/** The schema of a value as its default shows it. */
function schemaOf(value: unknown): Json {
  if (Array.isArray(value)) return { type: "array" };
  if (typeof value === "number") return { type: "integer", minimum: 0 };
  if (typeof value !== "object" || value === null) return { type: typeof value };
  return { type: "object", additionalProperties: false, properties: propertiesOf(value) };
}

function propertiesOf(values: object): Json {
  const properties = Object.entries(values).map(([key, value]) => {
    return [key, OPEN.has(key) ? { type: "object" } : schemaOf(value)] as const;
  });
  return Object.fromEntries(properties);
}

/** The text of `config/helm/values.schema.json`: the chart's values by their defaults, and `config` by the gateway's own schema. */
export function valuesSchema(): string {
  const values = parse(readFileSync(join(CONFIG, "helm/values.yaml"), "utf8")) as object;
  const { $schema: _draft, $defs, ...config } = configJsonSchema();
  const schema = {
    // Of the two that Helm 3 knows.
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Values of the chart registry-gateway",
    type: "object",
    additionalProperties: false,
    properties: { global: { type: "object" }, ...propertiesOf(values), config },
    $defs,
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

/** The alerts, as the chart has them: it reads no file outside of its folder. */
export function chartRules(): string {
  return readFileSync(join(CONFIG, "prometheus/rules.yaml"), "utf8");
}
