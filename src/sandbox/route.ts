import { type Endpoint, ENDPOINTS } from "../spec/operations.ts";

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
  const endpoint = ENDPOINTS.find((each) => matches(each.segments, segments));
  if (endpoint === undefined) return undefined;
  const place = endpoint.segments.findIndex(isParameter);
  const id = place === -1 ? "" : decode(segments[place]!);
  return id === undefined ? undefined : { endpoint, id };
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((part, i) => (isParameter(part) ? segments[i] !== "" : part === segments[i]))
  );
}

function isParameter(part: string): boolean {
  return part.startsWith("{");
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
