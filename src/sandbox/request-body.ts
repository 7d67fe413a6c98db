import type { IncomingMessage } from "node:http";

const MAX_BODY = 8 * 1024 * 1024;

/** The whole body. Rejects when the client goes away before its end, and for a body beyond 8 MiB. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAX_BODY) throw new Error("request body beyond 8 MiB");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
