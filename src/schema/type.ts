import type * as TypeBox from "typebox";

export type { Static, TProperties, TSchema, TUnsafe } from "typebox";

type Properties = Readonly<Record<string, object>>;

/** Further keywords and notes. */
type Options = Readonly<Record<string, unknown>>;

/** Of TypeBox's builders: those that the gateway uses. */
type Builders = Pick<
  typeof TypeBox,
  | "Array"
  | "Boolean"
  | "Integer"
  | "Literal"
  | "Null"
  | "Number"
  | "Object"
  | "Optional"
  | "Record"
  | "String"
  | "Tuple"
  | "Union"
  | "Unknown"
  | "Unsafe"
>;

/** A key that may be left out is marked here, so that its schema is JSON Schema and nothing else. */
const optional = new WeakSet<object>();

/** Whether a schema was made by `Type.Optional`. */
export function isOptional(schema: object): boolean {
  return optional.has(schema);
}

function objectOf(properties: Properties, options?: Options): object {
  const required = Object.keys(properties).filter((key) => !isOptional(properties[key]!));
  return { type: "object", ...(required.length === 0 ? {} : { required }), properties, ...options };
}

function optionalOf(schema: object): object {
  const copy = { ...schema };
  optional.add(copy);
  return copy;
}

const builders = {
  Array: (items: object, options?: Options) => ({ type: "array", items, ...options }),
  Boolean: (options?: Options) => ({ type: "boolean", ...options }),
  Integer: (options?: Options) => ({ type: "integer", ...options }),
  Literal: (value: boolean | number | string, options?: Options) => ({
    type: typeof value,
    const: value,
    ...options,
  }),
  Null: (options?: Options) => ({ type: "null", ...options }),
  Number: (options?: Options) => ({ type: "number", ...options }),
  Object: objectOf,
  Optional: optionalOf,
  /** Of the kinds of keys there is one: any text. */
  Record: (_key: object, value: object, options?: Options) => ({
    type: "object",
    patternProperties: { "^.*$": value },
    ...options,
  }),
  String: (options?: Options) => ({ type: "string", ...options }),
  Tuple: (items: readonly object[], options?: Options) => ({
    type: "array",
    additionalItems: false,
    items,
    minItems: items.length,
    ...options,
  }),
  Union: (anyOf: readonly object[], options?: Options) => ({ anyOf, ...options }),
  Unknown: (options?: Options) => ({ ...options }),
  Unsafe: (schema: object) => ({ ...schema }),
} satisfies Record<keyof Builders, (...parts: never[]) => object>;

/**
 * Makes JSON Schemas that carry the type of what they describe. The names, the types and what is made are TypeBox's;
 * its code is not loaded.
 */
export const Type = builders as unknown as Builders;
