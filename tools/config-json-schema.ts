import { asData, isOff } from "../src/config/keys.ts";
import type { Schema } from "../src/config/keys.ts";
import { configSchema } from "../src/config/schema.ts";

type JsonSchema = Readonly<Record<string, unknown>>;

/** JSON Schema's own keywords that a leaf may have; the others are notes for this program. */
const LEAF_KEYWORDS = ["type", "enum", "const", "pattern", "minLength", "minimum", "maximum"] as const;

const REFERENCE = { $ref: "#/$defs/reference" };

function describe(schema: Schema, inherits: boolean): JsonSchema {
  return {
    ...(schema.description === undefined ? {} : { description: schema.description }),
    ...(schema.default === undefined || inherits ? {} : { default: schema.default }),
    ...(schema.examples === undefined ? {} : { examples: schema.examples }),
  };
}

function renderNamed(values: Schema, { names, maxProperties }: Schema): JsonSchema {
  return {
    type: "object",
    propertyNames: { pattern: names?.pattern },
    additionalProperties: renderKey(values, false),
    maxProperties,
  };
}

function isRequired(schema: Schema): boolean {
  return !isOff(schema) && schema.default === undefined && schema.properties === undefined;
}

function renderGroup(schema: Schema, properties: Readonly<Record<string, Schema>>, inherits: boolean): JsonSchema {
  const entries = Object.entries(properties);
  const required = entries.filter(([, key]) => isRequired(key)).map(([name]) => name);
  const choices = (schema.oneOf ?? []).map((names) => ({ oneOf: names.map((name) => ({ required: [name] })) }));
  return {
    type: "object",
    properties: Object.fromEntries(entries.map(([name, key]) => [name, renderKey(key, inherits)])),
    additionalProperties: false,
    ...(required.length === 0 || inherits ? {} : { required }),
    ...(choices.length === 0 ? {} : { allOf: choices }),
  };
}

/** The alternatives of a single value: as it is, or as text with a variable in it. */
function renderLeaf(schema: Schema): JsonSchema[] {
  const own = Object.fromEntries(Object.entries(schema).filter(([key]) => LEAF_KEYWORDS.some((word) => word === key)));
  const isFreeText = schema.type === "string" && !("pattern" in schema);
  return isFreeText ? [own] : [own, REFERENCE];
}

function renderValue(schema: Schema, inherits: boolean): JsonSchema[] {
  if (schema.properties !== undefined) {
    return [renderGroup(schema, schema.properties, inherits || schema.inherits === true)];
  }
  if (schema.values !== undefined) return [renderNamed(schema.values, schema)];
  if (schema.items !== undefined) {
    const { minItems, maxItems } = schema;
    return [{ type: "array", items: renderKey(schema.items, false), minItems, maxItems }];
  }
  if (schema.anyOf === undefined) return renderLeaf(schema);
  const alternatives = schema.anyOf.flatMap((branch) => renderValue(branch, inherits));
  return alternatives.filter((item, index) => item !== REFERENCE || index === alternatives.indexOf(REFERENCE));
}

function renderKey(schema: Schema, inherits: boolean): JsonSchema {
  const alternatives = [...renderValue(schema, inherits), ...(isOff(schema) ? [{ const: "off" }] : [])];
  const value = alternatives.length === 1 ? alternatives[0] : { anyOf: alternatives };
  return { ...describe(schema, inherits), ...value };
}

/** The JSON Schema (2020-12) of a configuration file, for editors: durations and sizes are text there. */
export function renderConfigJsonSchema(): string {
  const schema = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Registry Gateway",
    ...renderKey(asData(configSchema), false),
    anyOf: [{ required: ["upstreams"], properties: { upstreams: { minItems: 1 } } }, { required: ["discovery"] }],
    $defs: {
      reference: {
        description: "Text with ${NAME} or ${NAME:-default} in it, replaced from the environment.",
        type: "string",
        pattern: String.raw`\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}`,
      },
    },
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}
