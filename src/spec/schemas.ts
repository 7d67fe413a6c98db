import { type Static, type TObjectOptions, type TSchema, Type } from "typebox";
import { Compile, type Validator } from "typebox/compile";
import { isObject, quote } from "../json.ts";
import { type Operation, OPERATION_RECORDS } from "./operations.ts";

/**
 * The bodies of the API: required fields as published (field.md), everything else optional, unknown fields allowed.
 * One set of schemas for the checks at the edge, the checks of answers and the API description.
 */

const open = { additionalProperties: true };

export const SupportedApis = Type.Object(
  {},
  { ...open, description: "API name → minor version the registry supports." },
);

export const RegistryInfo = Type.Object(
  {
    adminId: Type.String({ description: "Party id of the registry's admin." }),
    supportedApis: SupportedApis,
  },
  { ...open, description: "Registry info." },
);

export const Instrument = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    symbol: Type.String(),
    totalSupply: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    totalSupplyAsOf: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    decimals: Type.Integer(),
    supportedApis: SupportedApis,
    paused: Type.Optional(
      Type.Union([Type.Boolean(), Type.Null()], { description: "Whether transfers are paused (metadata 1.2)." }),
    ),
    pauseInfo: Type.Optional(
      Type.Union(
        [
          Type.Object(
            {
              reason: Type.Optional(Type.Union([Type.String(), Type.Null()])),
              until: Type.Optional(Type.Union([Type.String(), Type.Null()])),
            },
            open,
          ),
          Type.Null(),
        ],
        { description: "Why, and until when (metadata 1.2)." },
      ),
    ),
    accountInputFieldsToShow: Type.Optional(
      Type.Unknown({ description: "Fields of an account that a wallet asks for (metadata 1.2)." }),
    ),
  },
  { ...open, description: "Instrument." },
);

export const InstrumentPage = Type.Object(
  {
    instruments: Type.Array(Instrument),
    nextPageToken: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  },
  { ...open, description: "Instrument page." },
);

export const DisclosedContract = Type.Object(
  {
    templateId: Type.String(),
    contractId: Type.String(),
    createdEventBlob: Type.String(),
    synchronizerId: Type.String(),
    debugPackageName: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    debugPayload: Type.Optional(Type.Unknown()),
    debugCreatedAt: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  },
  { ...open, description: "Disclosed contract." },
);

export const ChoiceContext = Type.Object(
  {
    choiceContextData: Type.Object({}, open),
    disclosedContracts: Type.Array(DisclosedContract),
  },
  { ...open, description: "Choice context." },
);

export const TransferFactory = Type.Object(
  {
    factoryId: Type.String(),
    transferKind: Type.String({ description: "`self`, `direct`, `offer`; an open enumeration." }),
    choiceContext: ChoiceContext,
  },
  { ...open, description: "Transfer factory response." },
);

export const AllocationFactory = Type.Object(
  { factoryId: Type.String(), choiceContext: ChoiceContext },
  { ...open, description: "Allocation factory response." },
);

/** What can become of a registry, or of one of its instruments. */
export const CHANGE_TYPES = [
  "registry_added",
  "registry_removed",
  "registry_changed",
  "registry_relisted",
  "instrument_added",
  "instrument_removed",
  "instrument_changed",
  "instrument_paused",
  "instrument_unpaused",
] as const;
export type ChangeType = (typeof CHANGE_TYPES)[number];

const anyObject = Type.Object({}, open);

export const FactoryRequest = Type.Object(
  {
    choiceArguments: anyObject,
    excludeDebugFields: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
  },
  { ...open, description: "Factory request. Of the choice arguments the gateway reads the admins only." },
);

export const ContextRequest = Type.Object(
  {
    meta: Type.Optional(Type.Union([anyObject, Type.Null()])),
    excludeDebugFields: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
  },
  { ...open, description: "Choice-context request." },
);

// No record: that makes a pattern for the keys, and one with a line break in it does not match.
const stringMap = Type.Object({}, { additionalProperties: Type.String() });

/** Adds the published rule that `meta` is a flat map of strings. */
export const StrictContextRequest = Type.Object(
  {
    meta: Type.Optional(Type.Union([stringMap, Type.Null()])),
    excludeDebugFields: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
  },
  { ...open, description: "Choice-context request with the published rule that `meta` maps strings to strings." },
);

export type RegistryInfo = Static<typeof RegistryInfo>;
export type Instrument = Static<typeof Instrument>;
export type InstrumentPage = Static<typeof InstrumentPage>;

/** Success bodies by the names that the standard has for them. */
export const SCHEMAS = {
  GetRegistryInfoResponse: RegistryInfo,
  Instrument,
  ListInstrumentsResponse: InstrumentPage,
  ChoiceContext,
  TransferFactoryWithChoiceContext: TransferFactory,
  FactoryWithChoiceContext: AllocationFactory,
} as const satisfies Readonly<Record<string, TSchema>>;

export type SchemaName = keyof typeof SCHEMAS;

/** What is wrong with the success body of `operation`, or undefined when it fits its schema. */
export function answerProblem(operation: Operation, body: unknown): string | undefined {
  if (operation === "pass_through") return undefined;
  return problem(SCHEMAS[OPERATION_RECORDS[operation].answer], body);
}

/** What is wrong with the request body of a POST, or undefined. `strict` adds the published rules of the API. */
export function requestProblem(kind: "factory" | "context", body: unknown, strict: boolean): string | undefined {
  if (kind === "factory") return problem(FactoryRequest, body);
  return problem(strict ? StrictContextRequest : ContextRequest, body);
}

/**
 * The first thing that is wrong with a value, or undefined when it fits. The way to it is gone by hand: TypeBox looks for
 * errors in all elements of a list, at some 300 bytes for each that has one.
 *
 * @param place where the value stands in its body
 */
function problem(schema: TSchema, value: unknown, place = ""): string | undefined {
  const validator = validatorOf(schema);
  if (validator.Check(value)) return undefined;
  if (Type.IsUnion(schema)) return problem(schema.anyOf[0]!, value, place);
  const missing = missingIn(schema, value);
  if (missing.length > 0) return `${place === "" ? "" : `${place}: `}${missing.join(", ")} is missing`;
  for (const { name, ...member } of membersOf(schema, value)) {
    const within = problem(member.schema, member.value, place === "" ? name : `${place}.${name}`);
    if (within !== undefined) return within;
  }
  return `${place === "" ? "the body" : place} ${validator.Errors(value)[0]!.message}`;
}

function missingIn(schema: TSchema, value: unknown): readonly string[] {
  if (!Type.IsObject(schema) || !isObject(value)) return [];
  return (schema.required ?? []).filter((name) => !Object.hasOwn(value, name));
}

/** What a list or an object holds that its schema speaks of. */
function* membersOf(schema: TSchema, value: unknown): Generator<{ name: string; schema: TSchema; value: unknown }> {
  if (Type.IsArray(schema) && Array.isArray(value)) {
    for (const [at, each] of value.entries()) yield { name: String(at), schema: schema.items, value: each };
  } else if (Type.IsObject(schema) && isObject(value)) {
    const { additionalProperties: others } = schema as Pick<TObjectOptions, "additionalProperties">;
    for (const name of Object.keys(value)) {
      const isKnown = Object.hasOwn(schema.properties, name);
      const member = isKnown ? schema.properties[name] : others;
      if (typeof member !== "object") continue;
      yield { name: isKnown ? name : quote(name), schema: member, value: value[name] };
    }
  }
}

const validators = new WeakMap<TSchema, Validator>();

/** Each is compiled when it is first needed. */
function validatorOf(schema: TSchema): Validator {
  const known = validators.get(schema) ?? Compile(schema);
  validators.set(schema, known);
  return known;
}
