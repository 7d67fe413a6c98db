import { readdirSync } from "node:fs";
import * as fc from "fast-check";
import * as TypeBox from "typebox";
import { Compile } from "typebox/compile";
import { describe, expect, test } from "vitest";
import { asData, type Schema } from "../../src/config/keys.ts";
import { configSchema } from "../../src/config/schema.ts";
import { Type } from "../../src/schema/type.ts";
import { compile, type Fault } from "../../src/schema/validator.ts";
import * as spec from "../../src/spec/schemas.ts";
import { sampleText } from "../support/sample.ts";
import { runs } from "../support/thorough.ts";

type Find = (value: unknown) => Fault | undefined;

function ours(schema: object): Find {
  const validator = compile(schema);
  return (value) => {
    const fault = validator.findFault(value);
    expect(validator.accepts(value)).toBe(fault === undefined);
    return fault;
  };
}

/** What TypeBox's own validator, made from the same schema, says. */
function typeBox(schema: object): Find {
  const validator = Compile(schema);
  return (value) => {
    if (validator.Check(value)) return undefined;
    const [first] = validator.Errors(value);
    const missing = first?.keyword === "required" ? { missing: first.params.requiredProperties } : {};
    return first && { path: first.instancePath, message: first.message, ...missing };
  };
}

const TEXTS = fc.oneof(
  fc.constantFrom("", "a", "b", "/", "~", "\n", "💛", "💛💛", "\ud83d", "abcdefgh", "constructor", "7"),
  fc.string({ unit: "binary", maxLength: 9 }),
);

const NUMBERS = fc.oneof(fc.integer({ min: -3, max: 9 }), fc.constantFrom(0.5, -0, 2 ** 31, 1e300, 600));

const NAMES = ["id", "name", "a/b", "~", "meta", "0"];

/** Any value that JSON can say, in which names of the schemas are usual. */
const VALUES: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    TEXTS,
    NUMBERS,
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.constantFrom(...NAMES), TEXTS), tie("value"), { maxKeys: 4 }),
  ),
})).value;

/** Values that fit the schema or nearly do: every part of them is now and then any value. */
function nearly(schema: Schema & { readonly patternProperties?: Record<string, Schema> }): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 12, arbitrary: fitting(schema) }, { weight: 1, arbitrary: VALUES });
}

function fitting(schema: Parameters<typeof nearly>[0]): fc.Arbitrary<unknown> {
  if ("const" in schema) return fc.constant(schema["const"]);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(nearly));
  switch (schema.type) {
    case "string":
      return TEXTS;
    case "integer":
    case "number":
      return NUMBERS;
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array": {
      const { items } = schema;
      if (Array.isArray(items)) return fc.tuple(...(items as Schema[]).map(nearly));
      return fc.array(items === undefined ? VALUES : nearly(items), { maxLength: 4 });
    }
    case "object": {
      if (schema.patternProperties !== undefined) {
        return fc.dictionary(TEXTS, nearly(Object.values(schema.patternProperties)[0]!), { maxKeys: 4 });
      }
      const keys = Object.entries(schema.properties ?? {}).map(([name, key]) => [name, nearly(key)] as const);
      // A key that JSON has, but a record of fast-check would lose.
      const more = fc.dictionary(fc.constantFrom("__proto__", "toString", "more"), VALUES, { maxKeys: 1 });
      const requiredKeys = fc.subarray(
        keys.map(([name]) => name),
        { minLength: Math.max(0, keys.length - 2) },
      );
      return requiredKeys.chain((names) =>
        fc
          .tuple(fc.record(Object.fromEntries(keys.filter(([name]) => names.includes(name)))), more)
          .map(([fields, others]) => JSON.parse(JSON.stringify({ ...fields, ...others })) as unknown),
      );
    }
    default:
      return VALUES;
  }
}

/** Any schema that the builders can make. */
const SCHEMAS: fc.Arbitrary<object> = fc.letrec<{ schema: object }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    fc.constantFrom<object>(
      Type.String(),
      Type.String({ minLength: 1, maxLength: 2 }),
      Type.String({ minLength: 2, pattern: "^[a-z💛]*$" }),
      Type.String({ pattern: /^A.B$|^\n|^$/is }),
      Type.Integer(),
      Type.Integer({ minimum: 0, maximum: 7 }),
      Type.Number({ maximum: 0.5 }),
      Type.Boolean(),
      Type.Null(),
      Type.Unknown(),
      Type.Literal("a"),
      Type.Literal(7),
      Type.Unsafe({ enum: ["a", "b", 7, null] }),
      Type.Unsafe({ anyOf: [{ const: "a" }, { type: "integer", minimum: 1 }] }),
      Type.Unsafe({ type: "array" }),
      Type.Unsafe({ type: "object", required: ["id", "meta"] }),
    ),
    fc
      .tuple(tie("schema"), fc.constantFrom({}, { minItems: 1 }, { maxItems: 2 }))
      .map(([items, options]) => Type.Array(items, options)),
    fc.array(tie("schema"), { minLength: 1, maxLength: 3 }).map((items) => Type.Tuple(items)),
    fc.array(tie("schema"), { minLength: 1, maxLength: 3 }).map((anyOf) => Type.Union(anyOf)),
    tie("schema").map((value) => Type.Record(Type.String(), value)),
    fc
      .tuple(
        fc.dictionary(fc.constantFrom(...NAMES), fc.tuple(tie("schema"), fc.boolean()), { maxKeys: 4 }),
        fc.constantFrom({}, { additionalProperties: true }, { additionalProperties: false }),
      )
      .map(([keys, options]) =>
        Type.Object(
          Object.fromEntries(
            Object.entries(keys).map(([name, [key, isOptional]]) => [name, isOptional ? Type.Optional(key) : key]),
          ),
          options,
        ),
      ),
  ),
})).schema;

const PUBLISHED = Object.entries(spec).filter(([, each]) => typeof each === "object");

describe("a validator says what TypeBox says", () => {
  test("of any schema and any value: whether it fits, where it does not, and why", () => {
    fc.assert(
      fc.property(
        SCHEMAS.chain((schema) => fc.tuple(fc.constant(schema), fc.array(nearly(asData(schema)), { minLength: 8 }))),
        ([schema, values]) => {
          const [find, expected] = [ours(schema), typeBox(schema)];
          for (const value of values) expect(find(value)).toEqual(expected(value));
        },
      ),
      { numRuns: runs(60, 5_000) },
    );
  });

  test.each(PUBLISHED)("of %s and bodies that nearly fit it", (_name, schema) => {
    const [find, expected] = [ours(schema), typeBox(schema)];
    let faults = 0;
    fc.assert(
      fc.property(nearly(asData(schema)), (value) => {
        const fault = find(value);
        if (fault !== undefined) faults += 1;
        expect(fault).toEqual(expected(value));
      }),
      { numRuns: runs(60, 3_000) },
    );
    expect(faults).toBeGreaterThan(0);
  });

  test.each(readdirSync(new URL("../fixtures/samples/", import.meta.url)).filter((name) => name.endsWith(".json")))(
    "of %s by every schema of the API",
    (name) => {
      const body = JSON.parse(sampleText(name)) as unknown;
      for (const [, schema] of PUBLISHED) expect(ours(schema)(body)).toEqual(typeBox(schema)(body));
    },
  );

  test("of every scalar key of the configuration", () => {
    const leaves = leavesOf(asData(configSchema));
    expect(leaves.length).toBeGreaterThan(100);
    const values = [
      "",
      "a",
      "*",
      "auto",
      "off",
      "info",
      "/a",
      "a b",
      -1,
      0,
      0.5,
      1,
      256,
      65_536,
      1e12,
      true,
      false,
      null,
    ];
    for (const leaf of leaves) {
      const [find, expected] = [ours(leaf), typeBox(leaf)];
      for (const value of values) expect(find(value)).toEqual(expected(value));
    }
  });
});

function leavesOf(schema: Schema): readonly Schema[] {
  if (schema.properties !== undefined) return Object.values(schema.properties).flatMap(leavesOf);
  if (schema.values !== undefined) return leavesOf(schema.values);
  return schema.items === undefined ? [schema] : leavesOf(schema.items);
}

describe("what a validator is not made for is refused when it is made", () => {
  test.each<[string, object]>([
    ["a keyword that it does not understand", { type: "string", format: "date" }],
    ["one in a part", { type: "object", properties: { one: { anyOf: [{ allOf: [] }] } } }],
    ["a type that JSON does not have", { type: "bigint" }],
    ["several types", { type: ["string", "null"] }],
    ["a property of every object", { type: "object", properties: { constructor: { type: "string" } } }],
    ["a schema of additional properties", { type: "object", additionalProperties: { type: "string" } }],
    ["patterns and nothing else", { type: "object", patternProperties: { a: {} }, additionalProperties: false }],
  ])("%s", (_name, schema) => {
    expect(() => compile(schema)).toThrow(/not understood|every object/);
  });

  test("TypeBox's own schemas are understood as well", () => {
    const schema = TypeBox.Object({ one: TypeBox.Optional(TypeBox.Union([TypeBox.String(), TypeBox.Null()])) });
    expect(compile(schema).findFault({ one: 1 })).toEqual({ path: "/one", message: "must be string" });
  });
});
