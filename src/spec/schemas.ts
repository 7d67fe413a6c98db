import { Type, type TSchema } from "typebox";
import { Compile, type Validator } from "typebox/schema";
import { type EndpointName, OPERATION_RECORDS } from "./operations.ts";

/**
 * The bodies of the API: required fields as published (CIP-0056, CIP-0112), everything else optional, unknown fields allowed.
 */

const OPEN = { additionalProperties: true };
const text = Type.Optional(Type.Union([Type.String(), Type.Null()]));
const anyObject = Type.Object({}, OPEN);

const RegistryInfo = Type.Object({ adminId: Type.String(), supportedApis: anyObject }, OPEN);

const Instrument = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    symbol: Type.String(),
    totalSupply: text,
    totalSupplyAsOf: text,
    decimals: Type.Integer(),
    supportedApis: anyObject,
  },
  OPEN,
);

const InstrumentPage = Type.Object({ instruments: Type.Array(Instrument), nextPageToken: text }, OPEN);

const DisclosedContract = Type.Object(
  {
    templateId: Type.String(),
    contractId: Type.String(),
    createdEventBlob: Type.String(),
    synchronizerId: Type.String(),
  },
  OPEN,
);

const ChoiceContext = Type.Object(
  { choiceContextData: anyObject, disclosedContracts: Type.Array(DisclosedContract) },
  OPEN,
);

const TransferFactory = Type.Object(
  { factoryId: Type.String(), transferKind: Type.String(), choiceContext: ChoiceContext },
  OPEN,
);

const AllocationFactory = Type.Object({ factoryId: Type.String(), choiceContext: ChoiceContext }, OPEN);

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

const flag = Type.Optional(Type.Union([Type.Boolean(), Type.Null()]));

/** Request bodies: types alone, nothing inside `choiceArguments` and `meta` (the registry knows better). */
const REQUESTS = {
  factory: Type.Object({ choiceArguments: anyObject, excludeDebugFields: flag }, OPEN),
  context: Type.Object({ meta: Type.Optional(Type.Union([anyObject, Type.Null()])), excludeDebugFields: flag }, OPEN),
};

/** The first thing that is wrong with the success body of `operation`; undefined when it fits its schema. */
export function answerProblem(operation: EndpointName, body: unknown): string | undefined {
  return problem(SCHEMAS[OPERATION_RECORDS[operation].answer], body);
}

/** The first thing that is wrong with the request body of a POST; undefined when it fits. */
export function requestProblem(kind: "factory" | "context", body: unknown): string | undefined {
  return problem(REQUESTS[kind], body);
}

function problem(schema: TSchema, value: unknown): string | undefined {
  const validator = validatorOf(schema);
  if (validator.Check(value)) return undefined;
  const [error] = validator.Errors(value)[1];
  const place = error?.instancePath.slice(1).replaceAll("/", ".") ?? "";
  return `${place === "" ? "the body" : place} ${error?.message ?? "does not fit"}`;
}

const validators = new Map<TSchema, Validator>();

/** The compiled form of a schema; each is compiled when it is first needed. */
function validatorOf(schema: TSchema): Validator {
  const known = validators.get(schema) ?? Compile(schema);
  validators.set(schema, known);
  return known;
}
