/**
 * The endpoints of the token-registry API as data, eleven of version 1 (CIP-56) and ten of version 2 (CIP-112), and what
 * a path below `/registry` means.
 */

/** Names of the endpoints: metric label, log field, purge and explain argument. `pass_through` is everything else. */
export type Operation =
  | "info"
  | "instruments"
  | "instrument"
  | "transfer_factory"
  | "transfer_accept"
  | "transfer_reject"
  | "transfer_withdraw"
  | "allocation_execute"
  | "allocation_withdraw"
  | "allocation_cancel"
  | "allocation_factory"
  | "transfer_factory_v2"
  | "transfer_accept_v2"
  | "transfer_reject_v2"
  | "transfer_withdraw_v2"
  | "allocation_factory_v2"
  | "allocation_instruction_accept_v2"
  | "allocation_instruction_withdraw_v2"
  | "settlement_factory_v2"
  | "allocation_withdraw_v2"
  | "allocation_cancel_v2"
  | "pass_through";

/** The endpoints whose answers are cached. */
export const CACHED_OPERATIONS = ["info", "instruments", "instrument"] as const;
export type CachedOperation = (typeof CACHED_OPERATIONS)[number];

/** What an endpoint is: `metadata` is cached; a `factory` has choice arguments; a `context` has the id of a contract. */
type EndpointKind = "metadata" | "factory" | "context";

export interface Endpoint {
  readonly operation: Exclude<Operation, "pass_through">;
  readonly kind: EndpointKind;
  /** Segments below `/registry`; `{id}` stands for any one segment. */
  readonly segments: readonly string[];
}

export const ENDPOINTS: readonly Endpoint[] = [
  endpoint("info", "metadata", "metadata/v1/info"),
  endpoint("instruments", "metadata", "metadata/v1/instruments"),
  endpoint("instrument", "metadata", "metadata/v1/instruments/{id}"),
  endpoint("transfer_factory", "factory", "transfer-instruction/v1/transfer-factory"),
  endpoint("transfer_accept", "context", "transfer-instruction/v1/{id}/choice-contexts/accept"),
  endpoint("transfer_reject", "context", "transfer-instruction/v1/{id}/choice-contexts/reject"),
  endpoint("transfer_withdraw", "context", "transfer-instruction/v1/{id}/choice-contexts/withdraw"),
  endpoint("allocation_execute", "context", "allocations/v1/{id}/choice-contexts/execute-transfer"),
  endpoint("allocation_withdraw", "context", "allocations/v1/{id}/choice-contexts/withdraw"),
  endpoint("allocation_cancel", "context", "allocations/v1/{id}/choice-contexts/cancel"),
  endpoint("allocation_factory", "factory", "allocation-instruction/v1/allocation-factory"),
  endpoint("transfer_factory_v2", "factory", "transfer-instruction/v2/transfer-factory"),
  endpoint("transfer_accept_v2", "context", "transfer-instruction/v2/{id}/choice-contexts/accept"),
  endpoint("transfer_reject_v2", "context", "transfer-instruction/v2/{id}/choice-contexts/reject"),
  endpoint("transfer_withdraw_v2", "context", "transfer-instruction/v2/{id}/choice-contexts/withdraw"),
  endpoint("allocation_factory_v2", "factory", "allocation-instruction/v2/allocation-factory"),
  endpoint("allocation_instruction_accept_v2", "context", "allocation-instruction/v2/{id}/choice-contexts/accept"),
  endpoint("allocation_instruction_withdraw_v2", "context", "allocation-instruction/v2/{id}/choice-contexts/withdraw"),
  // The standard has it in the singular.
  endpoint("settlement_factory_v2", "factory", "allocation/v2/settlement-factory"),
  endpoint("allocation_withdraw_v2", "context", "allocations/v2/{id}/choice-contexts/withdraw"),
  endpoint("allocation_cancel_v2", "context", "allocations/v2/{id}/choice-contexts/cancel"),
];

/** All operations, for metrics and documentation. */
export const OPERATIONS: readonly Operation[] = [...ENDPOINTS.map((each) => each.operation), "pass_through"];

/** What the decoded segments below `/registry` address. */
export type EndpointMatch =
  | { readonly match: "endpoint"; readonly endpoint: Endpoint; readonly id: string | undefined }
  /** Would be one of them but for its ids: an id with a raw slash in it. Never passed through. */
  | { readonly match: "malformed-id"; readonly endpoint: Endpoint }
  | { readonly match: "other" };

/** Finds the endpoint that the decoded `segments` below `/registry` address. */
export function matchEndpoint(segments: readonly string[]): EndpointMatch {
  for (const endpoint of ENDPOINTS) {
    if (endpoint.segments.length === segments.length && agrees(endpoint.segments, segments)) {
      const at = endpoint.segments.indexOf(ID);
      return { match: "endpoint", endpoint, id: at === -1 ? undefined : segments[at] };
    }
  }
  const malformed = ENDPOINTS.find((endpoint) => agreesButForSlashes(endpoint.segments, segments));
  return malformed === undefined ? { match: "other" } : { match: "malformed-id", endpoint: malformed };
}

/** The path of an endpoint below the base URL, `id` encoded as one segment. */
export function endpointPath(endpoint: Endpoint, id: string | undefined): string {
  const segments = endpoint.segments.map((segment) => (segment === ID ? encodeURIComponent(id ?? "") : segment));
  return `/registry/${segments.join("/")}`;
}

/** What the standard calls the id in an endpoint's path, by the segment above it. */
const ID_NAMES: Readonly<Record<string, string>> = {
  metadata: "instrumentId",
  "transfer-instruction": "transferInstructionId",
  "allocation-instruction": "allocationInstructionId",
  allocations: "allocationId",
};

/** The name of the id in the endpoint's path; undefined without one. */
export function idNameOf({ segments }: Endpoint): string | undefined {
  return segments.includes(ID) ? ID_NAMES[segments[0]!] : undefined;
}

/**
 * Whether a 404 means that the registry has no such endpoint: a client of version 2 falls back to version 1 by it,
 * whatever the body says.
 */
export function isOfVersion2(operation: Operation): boolean {
  return operation.endsWith("_v2");
}

/** The endpoint of an operation. */
export function endpointOf(operation: Exclude<Operation, "pass_through">): Endpoint {
  return ENDPOINTS.find((each) => each.operation === operation)!;
}

const ID = "{id}";

function endpoint(operation: Endpoint["operation"], kind: EndpointKind, path: string): Endpoint {
  return { operation, kind, segments: path.split("/") };
}

function agrees(pattern: readonly string[], segments: readonly string[]): boolean {
  return pattern.every((segment, i) => segment === ID || segment === segments[i]);
}

function agreesButForSlashes(pattern: readonly string[], segments: readonly string[]): boolean {
  const at = pattern.indexOf(ID);
  if (at === -1 || segments.length <= pattern.length) return false;
  const head = pattern.slice(0, at);
  const tail = pattern.slice(at + 1);
  const end = segments.slice(segments.length - tail.length);
  return agrees(head, segments) && agrees(tail, end);
}
