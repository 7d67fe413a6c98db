import { ENDPOINTS, isId } from "../src/spec/endpoints.ts";
import type { RequestsAnswer } from "../src/operations/answers.ts";

/** Where the public listener is reached. */
export interface PublicAddress {
  readonly origin: string;
  /** `routing.prefix` */
  readonly prefix: string;
}

type Request = RequestsAnswer["requests"][number];

/**
 * A command that sends a request like this one, with placeholders for what the gateway does not keep: ids, bodies,
 * queries, credentials. Undefined where not even the path is known.
 */
export function curlOf(request: Request, { origin, prefix }: PublicAddress): string | undefined {
  const endpoint = ENDPOINTS.find(({ operation }) => operation === request.operation);
  if (endpoint === undefined) return undefined;
  const isMetadata = endpoint.kind === "metadata";
  const path = endpoint.segments
    .map((segment) => (!isId(segment) ? segment : isMetadata ? "INSTRUMENT_ID" : "CONTRACT_ID"))
    .join("/");
  const base = request.upstream === "none" ? "" : `${prefix}/${encodeURIComponent(request.upstream)}`;
  const parts = [`curl -si ${quote(`${origin}${base}/registry/${path}`)}`];
  if (hasCredential(request)) parts.push(`-H "X-API-Key: $API_KEY"`);
  if (!isMetadata) parts.push("-H 'content-type: application/json'", "-d @body.json");
  return parts.join(" \\\n  ");
}

function hasCredential({ client }: Request): boolean {
  return client !== undefined && client !== "none" && client !== "anonymous";
}

/** As one word of a POSIX shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
