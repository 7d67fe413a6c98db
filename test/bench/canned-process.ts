import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { optionsOfParent, tellParent } from "./parent.ts";

/** An answer as bytes: with `content-length` among the fields and the body in base64. */
export interface CannedAnswer {
  readonly status: number;
  readonly fields: readonly string[];
  readonly body: string;
}

// Bare node:http: the least that a server on this platform can do. It reads nothing of a request and always answers the
// same.
const { status, fields, body } = optionsOfParent() as CannedAnswer;
const bytes = Buffer.from(body, "base64");
const server = createServer((request, response) => {
  response.writeHead(status, fields as string[]);
  if (bytes.length === 0 || request.method === "HEAD") response.end();
  else response.end(bytes);
});
server.listen(0, "127.0.0.1", () => tellParent({ port: (server.address() as AddressInfo).port }));
