import * as TypeBox from "typebox";
import { expect, test } from "vitest";
import { isOptional, Type } from "../../src/schema/type.ts";

type Builders = typeof Type;

const notes = { description: "what it is", examples: [1] };

const SCHEMAS: Readonly<Record<keyof Builders, (make: Builders) => readonly object[]>> = {
  Array: (make) => [make.Array(make.String()), make.Array(make.Null(), { ...notes, maxItems: 3 })],
  Boolean: (make) => [make.Boolean(), make.Boolean(notes)],
  Integer: (make) => [make.Integer(), make.Integer({ minimum: 1, maximum: 7 })],
  Literal: (make) => [make.Literal("word"), make.Literal(7, notes), make.Literal(false)],
  Null: (make) => [make.Null(), make.Null(notes)],
  Number: (make) => [make.Number(), make.Number({ minimum: 0.5 })],
  Object: (make) => [
    make.Object({}),
    make.Object({ one: make.Optional(make.String()) }, notes),
    make.Object({ one: make.Optional(make.String()), two: make.Null(), three: make.Unknown() }),
    make.Object({ deep: make.Object({ one: make.Null() }, { additionalProperties: false }) }),
  ],
  Optional: (make) => [make.Optional(make.String(notes)), make.Optional(make.Object({ one: make.Null() }))],
  Record: (make) => [make.Record(make.String(), make.Integer()), make.Record(make.String(), make.Null(), notes)],
  String: (make) => [make.String(), make.String({ pattern: "^a$", maxLength: 7, ...notes })],
  Tuple: (make) => [make.Tuple([make.String(), make.Null()]), make.Tuple([make.Integer()], notes)],
  Union: (make) => [make.Union([make.String(), make.Null()]), make.Union([make.Null(), make.Boolean()], notes)],
  Unknown: (make) => [make.Unknown(), make.Unknown(notes)],
  Unsafe: (make) => [make.Unsafe<7>({ type: "integer", const: 7 })],
};

test.each(Object.entries(SCHEMAS))("Type.%s makes the JSON that TypeBox makes, key by key", (_name, schemasBy) => {
  expect(schemasBy(Type).map((schema) => JSON.stringify(schema))).toEqual(
    schemasBy(TypeBox).map((schema) => JSON.stringify(schema)),
  );
});

test("an optional schema is another one than the schema it is made of", () => {
  const schema = Type.String();
  expect(isOptional(Type.Optional(schema))).toBe(true);
  expect(isOptional(schema)).toBe(false);
});
