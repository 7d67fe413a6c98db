import type { SchemaName } from "./schemas.ts";

/**
 * What there is to say of each endpoint of the token-registry API, once: eleven of version 1 (CIP-56) and ten of version 2
 * (CIP-112). Unions, routes, cache keys, purges, `ttl` keys, metrics, the API's description and the console's texts follow
 * from it.
 */

/** Where a request body names an instrument admin (field.md, *Which admin does a request mean?*). */
export interface AdminPath {
  /** From the root. */
  readonly keys: readonly string[];
  /** No admin is named where something else than an object is on the way; else such a body is refused. */
  readonly mayEnd?: boolean;
}

export type AdminPaths = readonly AdminPath[];

/** The group in which the API's description shows it. */
export type Tag = "token metadata" | keyof typeof CONTRACTS;

interface EndpointRecord {
  /** Below `/registry`; what is in braces stands for any one segment, under the name that the standard has for it. */
  readonly path: string;
  /** Of a success. */
  readonly answer: SchemaName;
  readonly tag: Tag;
  readonly summary: string;
}

/** How the plain base URL of several registries answers a cached endpoint. */
export type AggregateBehaviour =
  /** With the listings of all, one after the other. */
  | "listing"
  /** With what the one registry has that knows the id. */
  | "search"
  /** With what all support, in the name of the configured admin; refused where none is configured. */
  | "info"
  /** Not at all: 400 that lists the registries. */
  | "refused";

/** A GET whose answers are cached. */
export interface CachedRecord extends EndpointRecord {
  readonly kind: "metadata";
  /** What it addresses: the registry's only one, one by the id in the path, or a page of a listing. */
  readonly address: "sole" | "id" | "page";
  /** Entries of the same data are purged together. It is the name of their epoch in Redis. */
  readonly data: string;
  /** What such a body has. An answer that lacks it, and has what another endpoint's has, is one to another request. */
  readonly members: Readonly<Record<string, "string" | "object" | "array">>;
  /** Members in which answers of several nodes have to be the same; of a page, besides its instruments. */
  readonly compared: readonly string[];
  /** `cache.ttl` and `cache.maxTtl`. */
  readonly ttl: string;
  readonly maxTtl: string;
  readonly aggregate: AggregateBehaviour;
  /** Its entries, in the plural, as in "… are in memory". */
  readonly entries: string;
  /** What its purge takes, as a choice of the console. */
  readonly purge: string;
}

/** A POST with choice arguments, which name the admin. */
export interface FactoryRecord extends EndpointRecord {
  readonly kind: "factory";
  readonly admins: AdminPaths;
}

/** A POST about the contract whose id is in the path. */
export interface ContextRecord extends EndpointRecord {
  readonly kind: "context";
}

const EXPECTED_ADMIN: AdminPath = { keys: ["choiceArguments", "expectedAdmin"] };
const TRANSFER_ADMIN: AdminPath = { keys: ["choiceArguments", "transfer", "instrumentId", "admin"] };
const ALLOCATION_LEG_ADMIN: AdminPath = {
  keys: ["choiceArguments", "allocation", "transferLeg", "instrumentId", "admin"],
};
const ALLOCATION_ADMIN: AdminPath = { keys: ["choiceArguments", "allocation", "admin"] };

// Version 2 has no expectedAdmin, and text in its legs: where a client sends those of version 1 all the same, they have to agree.
const OF_TRANSFER: AdminPaths = [TRANSFER_ADMIN, EXPECTED_ADMIN];
const OF_ALLOCATION_LEG: AdminPaths = [ALLOCATION_LEG_ADMIN, EXPECTED_ADMIN];
const OF_ALLOCATION: AdminPaths = [ALLOCATION_ADMIN, { ...ALLOCATION_LEG_ADMIN, mayEnd: true }, EXPECTED_ADMIN];
const OF_SETTLEMENT: AdminPaths = [EXPECTED_ADMIN];

/** Of a factory that is a draft still: wherever one of the others names it, and beside what it locks. */
export const DRAFT_ADMINS: AdminPaths = [
  EXPECTED_ADMIN,
  TRANSFER_ADMIN,
  ALLOCATION_ADMIN,
  ALLOCATION_LEG_ADMIN,
  { keys: ["choiceArguments", "lock", "instrumentId", "admin"] },
];

const CONTRACTS = {
  "transfer instruction": "transfer-instruction/VERSION/{transferInstructionId}",
  allocation: "allocations/VERSION/{allocationId}",
  "allocation instruction": "allocation-instruction/VERSION/{allocationInstructionId}",
};

export const OPERATION_RECORDS = {
  info: cached({
    path: "metadata/v1/info",
    address: "sole",
    data: "info",
    answer: "GetRegistryInfoResponse",
    members: { adminId: "string" },
    compared: ["adminId", "supportedApis"],
    ttl: "10m",
    maxTtl: "24h",
    aggregate: "info",
    summary: "What the registry is and supports",
    entries: "infos",
    purge: "Its info",
  }),
  instruments: cached({
    path: "metadata/v1/instruments",
    address: "page",
    data: "list",
    answer: "ListInstrumentsResponse",
    members: { instruments: "array" },
    compared: ["nextPageToken"],
    ttl: "30s",
    maxTtl: "10m",
    aggregate: "listing",
    summary: "All instruments, in pages",
    entries: "pages of instruments",
    purge: "Its instruments: pages and single ones",
  }),
  instrument: cached({
    path: "metadata/v1/instruments/{instrumentId}",
    address: "id",
    data: "list",
    answer: "Instrument",
    members: { id: "string", symbol: "string" },
    // Its supply moves from one answer to the next.
    compared: ["id", "name", "symbol", "decimals", "supportedApis", "paused"],
    ttl: "30s",
    maxTtl: "10m",
    aggregate: "search",
    summary: "One instrument",
    entries: "single instruments",
    purge: "One instrument, and the pages",
  }),
  transfer_factory: factory({
    path: "transfer-instruction/v1/transfer-factory",
    admins: OF_TRANSFER,
    answer: "TransferFactoryWithChoiceContext",
    tag: "transfer instruction",
    summary: "Factory and context for a direct transfer",
  }),
  transfer_accept: contextTo("accept", "transfer instruction", "v1"),
  transfer_reject: contextTo("reject", "transfer instruction", "v1"),
  transfer_withdraw: contextTo("withdraw", "transfer instruction", "v1"),
  allocation_execute: context({
    path: "allocations/v1/{allocationId}/choice-contexts/execute-transfer",
    tag: "allocation",
    summary: "Context to execute the transfer of an allocation",
  }),
  allocation_withdraw: contextTo("withdraw", "allocation", "v1"),
  allocation_cancel: contextTo("cancel", "allocation", "v1"),
  allocation_factory: factory({
    path: "allocation-instruction/v1/allocation-factory",
    admins: OF_ALLOCATION_LEG,
    answer: "FactoryWithChoiceContext",
    tag: "allocation instruction",
    summary: "Factory and context to create allocations",
  }),
  transfer_factory_v2: factory({
    path: "transfer-instruction/v2/transfer-factory",
    admins: OF_TRANSFER,
    answer: "TransferFactoryWithChoiceContext",
    tag: "transfer instruction",
    summary: "Factory and context for a direct transfer (version 2)",
  }),
  transfer_accept_v2: contextTo("accept", "transfer instruction", "v2"),
  transfer_reject_v2: contextTo("reject", "transfer instruction", "v2"),
  transfer_withdraw_v2: contextTo("withdraw", "transfer instruction", "v2"),
  allocation_factory_v2: factory({
    path: "allocation-instruction/v2/allocation-factory",
    admins: OF_ALLOCATION,
    answer: "FactoryWithChoiceContext",
    tag: "allocation instruction",
    summary: "Factory and context to create allocations (version 2)",
  }),
  allocation_instruction_accept_v2: contextTo("accept", "allocation instruction", "v2"),
  allocation_instruction_withdraw_v2: contextTo("withdraw", "allocation instruction", "v2"),
  settlement_factory_v2: factory({
    // The standard has it in the singular.
    path: "allocation/v2/settlement-factory",
    admins: OF_SETTLEMENT,
    answer: "FactoryWithChoiceContext",
    tag: "allocation",
    summary: "Factory and context to settle a batch of allocations (version 2)",
  }),
  allocation_withdraw_v2: contextTo("withdraw", "allocation", "v2"),
  allocation_cancel_v2: contextTo("cancel", "allocation", "v2"),
} as const satisfies Readonly<Record<string, CachedRecord | FactoryRecord | ContextRecord>>;

type Records = typeof OPERATION_RECORDS;

/** The endpoints by name: metric label, log field, argument of `explain`. */
export type EndpointName = keyof Records;

/** Those whose answers are cached, by the same names: argument of a purge, keys of `ttl`. */
export type CachedOperation = {
  [Name in EndpointName]: Records[Name] extends CachedRecord ? Name : never;
}[EndpointName];

/** `pass_through` is everything else below `/registry`. */
export type Operation = EndpointName | "pass_through";

const NAMES = Object.keys(OPERATION_RECORDS) as EndpointName[];

/** All operations, for metrics and documentation. */
export const OPERATIONS: readonly Operation[] = [...NAMES, "pass_through"];

export const CACHED_OPERATIONS: readonly CachedOperation[] = NAMES.filter(isCached);

/** The record of a cached operation. */
export function cachedRecord(operation: CachedOperation): CachedRecord {
  return OPERATION_RECORDS[operation];
}

export function isCached(operation: string): operation is CachedOperation {
  return (
    Object.hasOwn(OPERATION_RECORDS, operation) && OPERATION_RECORDS[operation as EndpointName].kind === "metadata"
  );
}

/** Something for each cached operation. */
export function forEachCached<Value>(
  make: (record: CachedRecord, operation: CachedOperation) => Value,
): Record<CachedOperation, Value> {
  const all = CACHED_OPERATIONS.map((operation) => [operation, make(cachedRecord(operation), operation)] as const);
  return Object.fromEntries(all) as Record<CachedOperation, Value>;
}

function cached(record: Omit<CachedRecord, "kind" | "tag">): CachedRecord {
  return { kind: "metadata", tag: "token metadata", ...record };
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
    tag: contract,
    summary: `Context to ${choice} ${article} ${contract}${version === "v1" ? "" : " (version 2)"}`,
  });
}
