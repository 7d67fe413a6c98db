/** The API as the standard has it, written down here once more: what the tests hold against the product. */
export interface Endpoint {
  readonly operation: string;
  readonly method: "GET" | "POST";
  /** Below the registry's base URL; `{id}` stands for one segment. */
  readonly path: string;
  readonly kind: "metadata" | "factory" | "context";
  /** Builds choice arguments that name the admin, where the endpoint has such a place. */
  readonly naming?: (admin: string) => object;
}

const TRANSFER = (admin: string): object => ({ transfer: { instrumentId: { admin, id: "A" } } });

export const ENDPOINTS: readonly Endpoint[] = [
  { operation: "info", method: "GET", path: "/registry/metadata/v1/info", kind: "metadata" },
  { operation: "instruments", method: "GET", path: "/registry/metadata/v1/instruments", kind: "metadata" },
  { operation: "instrument", method: "GET", path: "/registry/metadata/v1/instruments/{id}", kind: "metadata" },
  factory("transfer_factory", "/registry/transfer-instruction/v1/transfer-factory", TRANSFER),
  context("transfer_accept", "/registry/transfer-instruction/v1/{id}/choice-contexts/accept"),
  context("transfer_reject", "/registry/transfer-instruction/v1/{id}/choice-contexts/reject"),
  context("transfer_withdraw", "/registry/transfer-instruction/v1/{id}/choice-contexts/withdraw"),
  context("allocation_execute", "/registry/allocations/v1/{id}/choice-contexts/execute-transfer"),
  context("allocation_withdraw", "/registry/allocations/v1/{id}/choice-contexts/withdraw"),
  context("allocation_cancel", "/registry/allocations/v1/{id}/choice-contexts/cancel"),
  factory("allocation_factory", "/registry/allocation-instruction/v1/allocation-factory", (admin) => ({
    allocation: { transferLeg: { instrumentId: { admin, id: "A" } } },
  })),
  factory("transfer_factory_v2", "/registry/transfer-instruction/v2/transfer-factory", TRANSFER),
  context("transfer_accept_v2", "/registry/transfer-instruction/v2/{id}/choice-contexts/accept"),
  context("transfer_reject_v2", "/registry/transfer-instruction/v2/{id}/choice-contexts/reject"),
  context("transfer_withdraw_v2", "/registry/transfer-instruction/v2/{id}/choice-contexts/withdraw"),
  factory("allocation_factory_v2", "/registry/allocation-instruction/v2/allocation-factory", (admin) => ({
    allocation: { admin },
  })),
  context("allocation_instruction_accept_v2", "/registry/allocation-instruction/v2/{id}/choice-contexts/accept"),
  context("allocation_instruction_withdraw_v2", "/registry/allocation-instruction/v2/{id}/choice-contexts/withdraw"),
  factory("settlement_factory_v2", "/registry/allocation/v2/settlement-factory"),
  context("allocation_withdraw_v2", "/registry/allocations/v2/{id}/choice-contexts/withdraw"),
  context("allocation_cancel_v2", "/registry/allocations/v2/{id}/choice-contexts/cancel"),
];

function factory(operation: string, path: string, naming?: Endpoint["naming"]): Endpoint {
  return { operation, method: "POST", path, kind: "factory", ...(naming !== undefined && { naming }) };
}

function context(operation: string, path: string): Endpoint {
  return { operation, method: "POST", path, kind: "context" };
}

const PATTERNS = ENDPOINTS.map((endpoint) => ({
  ...endpoint,
  pattern: new RegExp(`^${endpoint.path.replace("{id}", "[^/]+")}$`),
}));

/** The operation that a path (with or without query) asks a registry for. */
export function operationOf(method: string, url: string): string {
  const [path = ""] = url.split("?", 1);
  return PATTERNS.find((each) => each.method === method && each.pattern.test(path))?.operation ?? "pass_through";
}

/** The path of an endpoint below a base URL, the id encoded as one segment. */
export function pathOf(operation: string, id = "00ab"): string {
  const endpoint = ENDPOINTS.find((each) => each.operation === operation);
  if (endpoint === undefined) throw new Error(`no endpoint ${operation}`);
  return endpoint.path.replace("{id}", () => encodeURIComponent(id));
}

export const INFO = pathOf("info");
export const LIST = pathOf("instruments");
export const CANCEL = pathOf("allocation_cancel");
export const ACCEPT = pathOf("transfer_accept");
export const FACTORY = pathOf("transfer_factory");
export const FACTORY_V2 = pathOf("transfer_factory_v2");
/** A path of no published family: it passes through. */
export const DRAFT = "/registry/drafts/v1/x";
/** The operator's path that a reference wallet looks for at a registry's origin. */
export const OPERATOR = "/api/utilities/v0/operator";

export const PREFIX = "/api/token-standard/v0/registrars";
export const ADMIN_HEADER = "x-instrument-admin";

/** A factory's body. */
export function choice(choiceArguments: object = {}): string {
  return JSON.stringify({ choiceArguments });
}

/** The body of a version 1 factory that names an admin. */
export function expecting(admin: string): string {
  return choice({ expectedAdmin: admin });
}
