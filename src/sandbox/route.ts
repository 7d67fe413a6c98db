import { type Endpoint, endpointAt, isId } from "../spec/operations.ts";

/** An endpoint and the id in its path, decoded; empty where it has none. */
export interface Route {
  readonly endpoint: Endpoint;
  readonly id: string;
}

const BASE = "/registry/";

/** The endpoint of `path` (without query); undefined where there is none. */
export function routeOf(path: string): Route | undefined {
  if (!path.startsWith(BASE)) return undefined;
  const segments = path.slice(BASE.length).split("/");
  const endpoint = endpointAt(segments);
  if (endpoint === undefined) return undefined;
  const place = endpoint.segments.findIndex(isId);
  if (place === -1) return { endpoint, id: "" };
  const id = decode(segments[place]!);
  return id === undefined || id === "" ? undefined : { endpoint, id };
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
