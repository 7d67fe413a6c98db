import type { ServerResponse } from "node:http";

/** What a page of any origin may send and read: no wildcard covers Authorization. */
const PREFLIGHT = {
  "access-control-allow-methods": "GET, HEAD, POST, DELETE",
  "access-control-allow-headers": "authorization, content-type, if-none-match, x-api-key, x-request-id, traceparent",
  "access-control-max-age": "7200",
};

/** Lets pages of any origin read the answer, faulty ones too; answers a preflight itself, and says whether it did. */
export function allowBrowsers(method: string, response: ServerResponse): boolean {
  response.setHeader("access-control-allow-origin", "*");
  response.setHeader("access-control-expose-headers", "etag, retry-after, traceparent");
  if (method !== "OPTIONS") return false;
  response.writeHead(204, PREFLIGHT).end();
  return true;
}
