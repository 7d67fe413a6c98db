import { type EndpointMatch, isOfVersion2, matchEndpoint } from "../spec/endpoints.ts";
import type { CachedOperation, EndpointName, Operation } from "../spec/operations.ts";
import type { Version } from "./instrument.ts";

/** What a path asks of the registry, whatever the version in it. */
type Subject =
  | CachedOperation
  | "transfer-factory"
  | "allocation-factory"
  | "settlement-factory"
  | "transfer-context"
  | "allocation-context"
  | "instruction-context"
  | "draft"
  | "nothing";

/** A request's path, understood. */
export interface Route {
  operation: Operation;
  subject: Subject;
  /** The instrument or contract id in the path, decoded. */
  id: string;
  /** What the choice context is for: `accept`, `execute-transfer`, … */
  choice: string;
  method: "GET" | "POST" | undefined;
}

/** What each endpoint asks for; the cached ones are one each. */
const SUBJECTS: Readonly<Record<Exclude<EndpointName, CachedOperation>, Subject>> = {
  transfer_factory: "transfer-factory",
  transfer_accept: "transfer-context",
  transfer_reject: "transfer-context",
  transfer_withdraw: "transfer-context",
  allocation_execute: "allocation-context",
  allocation_withdraw: "allocation-context",
  allocation_cancel: "allocation-context",
  allocation_factory: "allocation-factory",
  transfer_factory_v2: "transfer-factory",
  transfer_accept_v2: "transfer-context",
  transfer_reject_v2: "transfer-context",
  transfer_withdraw_v2: "transfer-context",
  allocation_factory_v2: "allocation-factory",
  allocation_instruction_accept_v2: "instruction-context",
  allocation_instruction_withdraw_v2: "instruction-context",
  settlement_factory_v2: "settlement-factory",
  allocation_withdraw_v2: "allocation-context",
  allocation_cancel_v2: "allocation-context",
};

function decodeSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/** Reads `path` (without query, relative to the base URL); with version `v1`, nothing of the second exists. */
export function readRoute(path: string, version: Version): Route {
  const isV2 = version === "v2";
  const segments = path.startsWith("/registry/") ? path.slice("/registry/".length).split("/").map(decodeSegment) : [];
  const found: EndpointMatch = segments.includes(undefined) ? { match: "other" } : matchEndpoint(segments as string[]);
  if (found.match === "endpoint" && (isV2 || !isOfVersion2(found.endpoint.operation))) {
    const { endpoint } = found;
    const [id, choice] = [found.id ?? "", endpoint.segments.at(-1)!];
    const { operation } = endpoint;
    return endpoint.kind === "metadata"
      ? { operation, subject: endpoint.operation, id, choice, method: "GET" }
      : { operation, subject: SUBJECTS[endpoint.operation], id, choice, method: "POST" };
  }
  const isDraft = isV2 && path.startsWith("/registry/") && !path.startsWith("/registry/metadata/v1/");
  return { operation: "pass_through", subject: isDraft ? "draft" : "nothing", id: "", choice: "", method: undefined };
}
