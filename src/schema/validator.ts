import type { Static, TSchema } from "./type.ts";

/** What is wrong with a value. */
export interface Fault {
  /** Where, as a JSON pointer (RFC 6901). */
  readonly path: string;
  /** The end of a sentence that begins with the place: `must be …`. */
  readonly message: string;
  /** Required keys that the object there lacks; undefined where that is not the fault. */
  readonly missing?: readonly string[];
}

/** Holds values to a schema. */
export interface Validator<Value> {
  accepts(value: unknown): value is Value;
  /** The first fault, in the order of the schema; undefined: there is none. */
  findFault(value: unknown): Fault | undefined;
}

/** The keywords that values are held to. All others are notes. */
interface Keywords {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Keywords[];
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string | RegExp;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: Keywords | readonly Keywords[];
  readonly additionalItems?: false;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly patternProperties?: Readonly<Record<string, Keywords>>;
  readonly properties?: Readonly<Record<string, Keywords>>;
}

/** Keywords of JSON Schema that are not understood: a schema that has one would hold values to less than it says. */
const NOT_UNDERSTOOD = [
  "$ref",
  "$dynamicRef",
  "allOf",
  "oneOf",
  "not",
  "if",
  "format",
  "multipleOf",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "prefixItems",
  "contains",
  "uniqueItems",
  "unevaluatedItems",
  "unevaluatedProperties",
  "minProperties",
  "maxProperties",
  "propertyNames",
  "dependentRequired",
  "dependentSchemas",
];

type Find = (value: unknown) => Fault | undefined;

/**
 * Makes a schema into a validator of values that JSON can say.
 *
 * @throws Error for a schema with keywords that are not understood
 */
export function compile<Schema extends TSchema>(schema: Schema): Validator<Static<Schema>> {
  const findFault = finderOf(schema);
  return {
    findFault,
    accepts: (value): value is Static<Schema> => findFault(value) === undefined,
  };
}

function finderOf(schema: Keywords): Find {
  const strange = NOT_UNDERSTOOD.find((keyword) => keyword in schema);
  if (strange !== undefined) throw new Error(`${strange} is not understood in ${JSON.stringify(schema)}`);
  const finds = [ofType(schema), ofConst(schema), ofEnum(schema), ofAnyOf(schema)].filter((find) => find !== undefined);
  if (finds.length > 1) return (value) => firstOf(finds, value);
  return finds[0] ?? (() => undefined);
}

function firstOf(finds: readonly Find[], value: unknown): Fault | undefined {
  for (const find of finds) {
    const fault = find(value);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function ofType(schema: Keywords): Find | undefined {
  // One fault for all values, so that a branch of anyOf that does not fit costs nothing.
  const fault: Fault = { path: "", message: `must be ${schema.type}` };
  switch (schema.type) {
    case undefined:
      return undefined;
    case "string":
      return ofString(schema, fault);
    case "integer":
      return ofNumber(schema, fault, Number.isInteger);
    case "number":
      return ofNumber(schema, fault, Number.isFinite);
    case "boolean":
      return (value) => (typeof value === "boolean" ? undefined : fault);
    case "null":
      return (value) => (value === null ? undefined : fault);
    case "array":
      return ofArray(schema, fault);
    case "object":
      return ofObject(schema, fault);
    default:
      throw new Error(`the type ${schema.type} is not understood`);
  }
}

function ofConst(schema: Keywords): Find | undefined {
  if (!("const" in schema)) return undefined;
  const fault = { path: "", message: "must be equal to constant" };
  return (value) => (value === schema.const ? undefined : fault);
}

function ofEnum({ enum: words }: Keywords): Find | undefined {
  if (words === undefined) return undefined;
  const fault = { path: "", message: "must be equal to one of the allowed values" };
  return (value) => (words.includes(value) ? undefined : fault);
}

function ofAnyOf({ anyOf }: Keywords): Find | undefined {
  if (anyOf === undefined) return undefined;
  const finds = anyOf.map(finderOf);
  return (value) => {
    let first: Fault | undefined;
    for (const find of finds) {
      const fault = find(value);
      if (fault === undefined) return undefined;
      first ??= fault;
    }
    return first;
  };
}

function ofString({ minLength = 0, maxLength = Infinity, pattern }: Keywords, notText: Fault): Find {
  const tooShort = { path: "", message: `must not have fewer than ${minLength} characters` };
  const tooLong = { path: "", message: `must not have more than ${maxLength} characters` };
  const mismatch = { path: "", message: `must match pattern "${String(pattern)}"` };
  const expression = typeof pattern === "string" ? new RegExp(pattern, "u") : pattern;
  return (value) => {
    if (typeof value !== "string") return notText;
    // A character is one or two units of the text's length.
    if (value.length < minLength * 2 && charactersIn(value) < minLength) return tooShort;
    if (value.length > maxLength && charactersIn(value) > maxLength) return tooLong;
    return expression === undefined || expression.test(value) ? undefined : mismatch;
  };
}

function charactersIn(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function ofNumber(
  { minimum = -Infinity, maximum = Infinity }: Keywords,
  notOne: Fault,
  isOne: (value: unknown) => boolean,
): Find {
  const tooSmall = { path: "", message: `must be >= ${minimum}` };
  const tooLarge = { path: "", message: `must be <= ${maximum}` };
  return (value) => {
    if (!isOne(value)) return notOne;
    if (Number(value) < minimum) return tooSmall;
    return Number(value) > maximum ? tooLarge : undefined;
  };
}

function ofArray(schema: Keywords, notOne: Fault): Find {
  const { items = {}, additionalItems, minItems = 0, maxItems = Infinity } = schema;
  const tooFew = { path: "", message: `must not have fewer than ${minItems} items` };
  const tooMany = { path: "", message: `must not have more than ${maxItems} items` };
  const places = isList(items) ? items.map((item, index) => ({ name: index, find: finderOf(item) })) : undefined;
  const last = places === undefined || additionalItems !== false ? Infinity : places.length;
  const findInItems = places === undefined ? eachOf(finderOf(items as Keywords)) : unroll(places, within);
  return (value) => {
    if (!Array.isArray(value)) return notOne;
    const fault = value.length > last ? superfluous(last) : findInItems(value);
    if (fault !== undefined) return fault;
    if (value.length < minItems) return tooFew;
    return value.length > maxItems ? tooMany : undefined;
  };
}

function isList(items: Keywords | readonly Keywords[]): items is readonly Keywords[] {
  return Array.isArray(items);
}

function eachOf(find: Find): (items: readonly unknown[]) => Fault | undefined {
  return (items) => {
    for (let index = 0; index < items.length; index += 1) {
      const fault = find(items[index]);
      if (fault !== undefined) return within(index, fault);
    }
    return undefined;
  };
}

type JsonObject = Readonly<Record<string, unknown>>;

function ofObject(schema: Keywords, notOne: Fault): Find {
  const { required = [], properties = {}, patternProperties = {}, additionalProperties } = schema;
  const names = [...new Set([...Object.keys(properties), ...required])];
  refuseStrangeKeys(schema, names);
  const keys = names.map((name) => ({
    name,
    find: finderOf(properties[name] ?? {}),
    isRequired: required.includes(name),
  }));
  const patterns = Object.entries(patternProperties).map(
    ([pattern, each]) => [new RegExp(pattern, "u"), finderOf(each)] as const,
  );
  const findOther = (object: JsonObject): Fault | undefined => {
    const other =
      additionalProperties === false ? Object.keys(object).find((name) => !names.includes(name)) : undefined;
    return other === undefined ? findInPatterns(patterns, object) : superfluous(other);
  };
  const findInKeys = unroll(
    keys,
    (name, fault, object: JsonObject) => findLacking(required, object) ?? findOther(object) ?? within(name, fault),
  );
  const isOpen = additionalProperties !== false && patterns.length === 0;
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return notOne;
    const object = value as JsonObject;
    return isOpen ? findInKeys(object) : (findInKeys(object) ?? findOther(object));
  };
}

interface Place {
  readonly name: string | number;
  readonly find: Find;
  readonly isRequired?: boolean;
}

/**
 * A loop over the places of an object or a tuple, written out as code in which each place is read by its own name: V8
 * then knows where it is, which makes the check of a page five times as quick. `describe` is given the first fault.
 */
function unroll<Container extends object>(
  places: readonly Place[],
  describe: (name: string | number, fault: Fault, container: Container) => Fault,
): (container: Container) => Fault | undefined {
  const steps = places.map(({ name, isRequired = false }, index) => {
    const place = JSON.stringify(name);
    const find = isRequired ? `value === undefined ? LACKING : finds[${index}](value)` : `finds[${index}](value)`;
    return `
      value = container[${place}];
      if (${isRequired} || value !== undefined) {
        const fault = ${find};
        if (fault !== undefined) return describe(${place}, fault, container);
      }`;
  });
  const code = `
    return (container) => {
      let value;${steps.join("")}
    };`;
  // oxlint-disable-next-line typescript/no-implied-eval -- written from the schemas of this program alone
  const make = new Function("finds", "describe", "LACKING", code) as (...parts: unknown[]) => ReturnType<typeof unroll>;
  return make(
    places.map(({ find }) => find),
    describe,
    LACKING,
  );
}

const LACKING: Fault = { path: "", message: "is missing" };

function refuseStrangeKeys({ additionalProperties, patternProperties }: Keywords, names: readonly string[]): void {
  const inherited = names.find((name) => name in Object.prototype);
  if (inherited !== undefined) throw new Error(`every object has a property ${inherited}`);
  if (typeof additionalProperties === "object" || (additionalProperties === false && patternProperties !== undefined)) {
    throw new Error("a schema of additional properties, or none beside patterns, is not understood");
  }
}

function findLacking(required: readonly string[], object: JsonObject): Fault | undefined {
  const missing = required.filter((name) => object[name] === undefined);
  if (missing.length === 0) return undefined;
  return { path: "", message: `must have required properties ${missing.join(", ")}`, missing };
}

function findInPatterns(patterns: readonly (readonly [RegExp, Find])[], object: JsonObject): Fault | undefined {
  for (const [pattern, find] of patterns) {
    for (const [name, value] of Object.entries(object)) {
      const fault = pattern.test(name) ? find(value) : undefined;
      if (fault !== undefined) return within(name, fault);
    }
  }
  return undefined;
}

function superfluous(name: string | number): Fault {
  return within(name, { path: "", message: "schema is false" });
}

/** The fault of a value as one of the object or list that it is in. */
function within(name: string | number, fault: Fault): Fault {
  const step = String(name).replaceAll("~", "~0").replaceAll("/", "~1");
  return { ...fault, path: `/${step}${fault.path}` };
}
