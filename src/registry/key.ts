import { createHash } from "node:crypto";
import type { CacheKey } from "../cache/types.ts";
import { endpointPath, type SoleOperation } from "../spec/operations.ts";

/** A question to one of the cached endpoints of a registry. */
export type MetadataRequest =
  | { readonly operation: SoleOperation }
  | {
      readonly operation: "instruments";
      /** As written in a query, percent-encoded; undefined: the client leaves the size open. */
      readonly pageSize?: string | undefined;
      /** As written in a query, percent-encoded; undefined: the first page. */
      readonly pageToken?: string | undefined;
    }
  | {
      readonly operation: "instrument";
      /** Decoded. */
      readonly id: string;
    };

/** Longest name that is a key as it is; a longer one is kept by its digest: clients choose tokens and ids. */
const MAX_NAME = 200;

/**
 * Makes the key of what a request asks for. A page whose size the client leaves open has a key of its own, also where its size
 * is one that clients name: it alone may come in a smaller size.
 */
export function keyOf(party: string, request: MetadataRequest, generation: number): CacheKey {
  const isMinor = request.operation === "instruments" && request.pageToken !== undefined;
  return { party, name: bounded(nameOf(request)), isMinor, generation };
}

/** Names the group whose generation the pages of a registry have. No party id has a space. */
export function groupOf(party: string): string {
  return `${party} pages`;
}

/** Spaces part what is in a name: in a query there is none. */
function nameOf(request: MetadataRequest): string {
  switch (request.operation) {
    case "instruments":
      return `page ${request.pageSize ?? ""} ${request.pageToken ?? ""}`;
    case "instrument":
      return `instrument ${request.id}`;
    default:
      return request.operation;
  }
}

function bounded(name: string): string {
  if (name.length <= MAX_NAME) return name;
  const kind = name.slice(0, name.indexOf(" "));
  return `${kind}-digest ${createHash("sha256").update(name).digest("base64url")}`;
}

/**
 * Makes the path and query for the registry.
 *
 * @param size what is asked for where the client leaves the size of a page open
 */
export function pathOf(request: MetadataRequest, size: number | undefined): string {
  if (request.operation === "instrument") return endpointPath("instrument", request.id);
  if (request.operation !== "instruments") return endpointPath(request.operation);
  const parameters: string[] = [];
  const pageSize = request.pageSize ?? size;
  if (pageSize !== undefined) parameters.push(`pageSize=${pageSize}`);
  if (request.pageToken !== undefined) parameters.push(`pageToken=${request.pageToken}`);
  return `${endpointPath("instruments")}${parameters.length === 0 ? "" : `?${parameters.join("&")}`}`;
}
