import type { SchemaName } from "./schemas.ts";

/**
 * One record for each endpoint of the token-registry API: eleven of version 1 (CIP-0056) and ten of version 2 (CIP-0112).
 * Routes, cache policies, `ttl` keys and metrics follow from it.
 */

/** Place in a factory's body that names an instrument admin: keys from the root. */
export interface AdminPath {
  readonly keys: readonly string[];
  /** Something else than an object on the way means that no admin is named; else such a body is refused. */
  readonly mayEnd?: boolean;
}

interface EndpointRecord {
  /** Below `/registry`; what is in braces stands for any one segment, under the name that the standard has for it. */
  readonly path: string;
  /** Schema of a success body. */
  readonly answer: SchemaName;
  readonly summary: string;
}

/** A GET whose answers are cached. */
interface CachedRecord extends EndpointRecord {
  readonly kind: "metadata";
  /** The answer that a request means: the registry's only one, the one of the id in its path, or a page of a listing. */
  readonly address: "sole" | "id" | "page";
  /** Default of its `cache.ttl` key. */
  readonly ttl: string;
  /** The most that a registry's own lifetime may be, in ms. */
  readonly maxTtl: number;
  /** The plain base URL of several registries: one listing after the other, the one registry that has it, or a 400. */
  readonly aggregate: "listing" | "search" | "refused";
}

/** A POST with choice arguments, which name the admin. */
export interface FactoryRecord extends EndpointRecord {
  readonly kind: "factory";
  readonly admins: readonly AdminPath[];
}

/** A POST about the contract whose id is in the path. */
export interface ContextRecord extends EndpointRecord {
  readonly kind: "context";
}

const MINUTE = 60_000;

const EXPECTED_ADMIN: AdminPath = { keys: ["choiceArguments", "expectedAdmin"] };
const TRANSFER_ADMIN: AdminPath = { keys: ["choiceArguments", "transfer", "instrumentId", "admin"] };
const ALLOCATION_ADMIN: AdminPath = { keys: ["choiceArguments", "allocation", "admin"] };
const ALLOCATION_LEG_ADMIN: AdminPath = {
  keys: ["choiceArguments", "allocation", "transferLeg", "instrumentId", "admin"],
};

// Version 2 has no expectedAdmin, and text in its legs: where a client sends those of version 1 all the same, they have to agree.
const OF_TRANSFER = [TRANSFER_ADMIN, EXPECTED_ADMIN];
const OF_ALLOCATION = [ALLOCATION_ADMIN, { ...ALLOCATION_LEG_ADMIN, mayEnd: true }, EXPECTED_ADMIN];

/** The one place where an extra path's body, and a factory that is a draft still, may name an admin: it has to agree. */
export const EXPECTED_ADMIN_ALONE: readonly AdminPath[] = [{ ...EXPECTED_ADMIN, mayEnd: true }];

const CONTRACTS = {
  "transfer instruction": "transfer-instruction/VERSION/{transferInstructionId}",
  allocation: "allocations/VERSION/{allocationId}",
  "allocation instruction": "allocation-instruction/VERSION/{allocationInstructionId}",
};

export const OPERATION_RECORDS = {
  info: cached({
    path: "metadata/v1/info",
    address: "sole",
    answer: "GetRegistryInfoResponse",
    ttl: "10m",
    maxTtl: 24 * 60 * MINUTE,
    aggregate: "refused",
    summary: "The registry's admin and the APIs it supports",
  }),
  instruments: cached({
    path: "metadata/v1/instruments",
    address: "page",
    answer: "ListInstrumentsResponse",
    ttl: "30s",
    maxTtl: 10 * MINUTE,
    aggregate: "listing",
    summary: "All instruments, in pages",
  }),
  instrument: cached({
    path: "metadata/v1/instruments/{instrumentId}",
    address: "id",
    answer: "Instrument",
    ttl: "30s",
    maxTtl: 10 * MINUTE,
    aggregate: "search",
    summary: "One instrument",
  }),
  transfer_factory: factory({
    path: "transfer-instruction/v1/transfer-factory",
    admins: OF_TRANSFER,
    answer: "TransferFactoryWithChoiceContext",
    summary: "Factory and context for a direct transfer",
  }),
  transfer_accept: contextTo("accept", "transfer instruction", "v1"),
  transfer_reject: contextTo("reject", "transfer instruction", "v1"),
  transfer_withdraw: contextTo("withdraw", "transfer instruction", "v1"),
  allocation_execute: context({
    path: "allocations/v1/{allocationId}/choice-contexts/execute-transfer",
    summary: "Context to execute the transfer of an allocation",
  }),
  allocation_withdraw: contextTo("withdraw", "allocation", "v1"),
  allocation_cancel: contextTo("cancel", "allocation", "v1"),
  allocation_factory: factory({
    path: "allocation-instruction/v1/allocation-factory",
    admins: [ALLOCATION_LEG_ADMIN, EXPECTED_ADMIN],
    answer: "FactoryWithChoiceContext",
    summary: "Factory and context to create allocations",
  }),
  transfer_factory_v2: factory({
    path: "transfer-instruction/v2/transfer-factory",
    admins: OF_TRANSFER,
    answer: "TransferFactoryWithChoiceContext",
    summary: "Factory and context for a direct transfer (version 2)",
  }),
  transfer_accept_v2: contextTo("accept", "transfer instruction", "v2"),
  transfer_reject_v2: contextTo("reject", "transfer instruction", "v2"),
  transfer_withdraw_v2: contextTo("withdraw", "transfer instruction", "v2"),
  allocation_factory_v2: factory({
    path: "allocation-instruction/v2/allocation-factory",
    admins: OF_ALLOCATION,
    answer: "FactoryWithChoiceContext",
    summary: "Factory and context to create allocations (version 2)",
  }),
  allocation_instruction_accept_v2: contextTo("accept", "allocation instruction", "v2"),
  allocation_instruction_withdraw_v2: contextTo("withdraw", "allocation instruction", "v2"),
  settlement_factory_v2: factory({
    // The standard has it in the singular.
    path: "allocation/v2/settlement-factory",
    admins: [EXPECTED_ADMIN],
    answer: "FactoryWithChoiceContext",
    summary: "Factory and context to settle a batch of allocations (version 2)",
  }),
  allocation_withdraw_v2: contextTo("withdraw", "allocation", "v2"),
  allocation_cancel_v2: contextTo("cancel", "allocation", "v2"),
} as const satisfies Readonly<Record<string, CachedRecord | FactoryRecord | ContextRecord>>;

type Records = typeof OPERATION_RECORDS;

/** The endpoints by name: metric label, log field. */
export type EndpointName = keyof Records;

/** Operations whose answers are cached: keys of `ttl`. */
export type CachedOperation = {
  [Name in EndpointName]: Records[Name] extends CachedRecord ? Name : never;
}[EndpointName];

/** Operations of which a registry has one answer. */
export type SoleOperation = {
  [Name in CachedOperation]: Records[Name] extends { readonly address: "sole" } ? Name : never;
}[CachedOperation];

/** POSTs. */
export type PostOperation = Exclude<EndpointName, CachedOperation>;

/** Endpoints, and everything else that is passed through. */
export type Operation = EndpointName | "pass_through";

/** One endpoint: its record with its name, and the segments of its path. */
export type Endpoint = { readonly segments: readonly string[] } & (
  | { readonly operation: CachedOperation; readonly record: CachedRecord }
  | { readonly operation: PostOperation; readonly record: FactoryRecord | ContextRecord }
);

export const ENDPOINTS: readonly Endpoint[] = Object.entries(OPERATION_RECORDS).map(
  ([operation, record]) => ({ operation, record, segments: record.path.split("/") }) as Endpoint,
);

/** Whether a segment of an endpoint's path stands for an id. */
export function isId(segment: string): boolean {
  return segment.startsWith("{");
}

/** The endpoint at the segments of a path below `/registry`; undefined where there is none. */
export function endpointAt(path: readonly string[]): Endpoint | undefined {
  return ENDPOINTS.find(
    ({ segments }) =>
      segments.length === path.length && segments.every((segment, i) => isId(segment) || segment === path[i]),
  );
}

/** Operations whose answers are cached. */
export const CACHED_OPERATIONS: readonly CachedOperation[] = ENDPOINTS.flatMap(({ operation, record }) =>
  record.kind === "metadata" ? [operation as CachedOperation] : [],
);

/** The record of a cached operation. */
export function cachedRecord(operation: CachedOperation): CachedRecord {
  return OPERATION_RECORDS[operation];
}

/** The path of an endpoint below the registry's base URL, `id` encoded as one segment. */
export function endpointPath(operation: EndpointName, id = ""): string {
  return `/registry/${OPERATION_RECORDS[operation].path.replace(/\{\w+\}/, () => encodeURIComponent(id))}`;
}

/** Whether a 404 means that the registry has no such endpoint: a client of version 2 falls back to version 1 by it. */
export function isOfVersion2(operation: Operation): boolean {
  return operation !== "pass_through" && OPERATION_RECORDS[operation].path.includes("/v2/");
}

function cached<const Record extends Omit<CachedRecord, "kind">>(record: Record): Record & CachedRecord {
  return { kind: "metadata", ...record };
}

function factory(record: Omit<FactoryRecord, "kind">): FactoryRecord {
  return { kind: "factory", ...record };
}

function context(record: Omit<ContextRecord, "kind" | "answer">): ContextRecord {
  return { kind: "context", answer: "ChoiceContext", ...record };
}

function contextTo(choice: string, contract: keyof typeof CONTRACTS, version: "v1" | "v2"): ContextRecord {
  const article = contract.startsWith("a") ? "an" : "a";
  return context({
    path: `${CONTRACTS[contract].replace("VERSION", version)}/choice-contexts/${choice}`,
    summary: `Context to ${choice} ${article} ${contract}${version === "v1" ? "" : " (version 2)"}`,
  });
}
