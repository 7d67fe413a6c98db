import {
  type CachedOperation,
  type CachedRecord,
  type ContextRecord,
  type EndpointName,
  type FactoryRecord,
  OPERATION_RECORDS,
} from "./operations.ts";

/** What a path below `/registry` means: one of the endpoints of the token-registry API, or anything else. */

/** An endpoint, with the segments of its path: those in braces stand for any one segment. */
export type Endpoint = { readonly segments: readonly string[] } & (
  | { readonly operation: CachedOperation; readonly kind: CachedRecord["kind"] }
  | {
      readonly operation: Exclude<EndpointName, CachedOperation>;
      readonly kind: FactoryRecord["kind"] | ContextRecord["kind"];
    }
);

export const ENDPOINTS: readonly Endpoint[] = Object.entries(OPERATION_RECORDS).map(
  ([operation, { kind, path }]) => ({ operation, kind, segments: path.split("/") }) as Endpoint,
);

/** By the name and the version of the API that they are of. */
const BY_API = Map.groupBy(ENDPOINTS, ({ segments: [name, version] }) => `${name}/${version}`);

/** What the decoded segments below `/registry` address. */
export type EndpointMatch =
  | { readonly match: "endpoint"; readonly endpoint: Endpoint; readonly id: string | undefined }
  /** Would be one of them but for its ids: an id with a raw slash in it. Never passed through. */
  | { readonly match: "malformed-id"; readonly endpoint: Endpoint }
  | { readonly match: "other" };

/** Finds the endpoint that the decoded `segments` below `/registry` address. */
export function matchEndpoint(segments: readonly string[]): EndpointMatch {
  const ofApi = BY_API.get(`${segments[0]}/${segments[1]}`) ?? [];
  for (const endpoint of ofApi) {
    if (endpoint.segments.length === segments.length && agrees(endpoint.segments, segments)) {
      const at = endpoint.segments.findIndex(isId);
      return { match: "endpoint", endpoint, id: at === -1 ? undefined : segments[at] };
    }
  }
  const malformed = ofApi.find((endpoint) => agreesButForSlashes(endpoint.segments, segments));
  return malformed === undefined ? { match: "other" } : { match: "malformed-id", endpoint: malformed };
}

/** The path of an endpoint below the base URL, `id` encoded as one segment. */
export function endpointPath({ segments }: Pick<Endpoint, "segments">, id: string | undefined): string {
  return `/registry/${segments.map((segment) => (isId(segment) ? encodeURIComponent(id ?? "") : segment)).join("/")}`;
}

/** What the standard calls the id in the endpoint's path; undefined without one. */
export function idNameOf({ segments }: Endpoint): string | undefined {
  return segments.find(isId)?.slice(1, -1);
}

/**
 * Whether a 404 means that the registry has no such endpoint: a client of version 2 falls back to version 1 by it,
 * whatever the body says.
 */
export function isOfVersion2(operation: EndpointName | "pass_through"): boolean {
  return operation !== "pass_through" && endpointOf(operation).segments[1] === "v2";
}

/** The endpoint of an operation. */
export function endpointOf(operation: EndpointName): Endpoint {
  return BY_NAME.get(operation)!;
}

const BY_NAME = new Map(ENDPOINTS.map((endpoint) => [endpoint.operation, endpoint]));

/** Whether the segment of a pattern stands for any one. */
export function isId(segment: string): boolean {
  return segment.startsWith("{");
}

function agrees(pattern: readonly string[], segments: readonly string[]): boolean {
  return pattern.every((segment, i) => isId(segment) || segment === segments[i]);
}

function agreesButForSlashes(pattern: readonly string[], segments: readonly string[]): boolean {
  const at = pattern.findIndex(isId);
  if (at === -1 || segments.length <= pattern.length) return false;
  const head = pattern.slice(0, at);
  const tail = pattern.slice(at + 1);
  const end = segments.slice(segments.length - tail.length);
  return agrees(head, segments) && agrees(tail, end);
}
