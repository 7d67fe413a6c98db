import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Answer } from "./answer.ts";

/** A request with its whole body. */
export interface Received {
  readonly message: IncomingMessage;
  readonly url: URL;
  readonly body: string;
}

/** End of a request without an answer: its connection stays open, or is reset. */
export type Ending = "hang" | "reset";

/** Bytes of the largest body; settlements of the largest batch have a MiB. */
const MOST_BYTES = 4 * 1024 * 1024;

/** A preflight of any origin is granted whatever it asks for: wallets in browsers call registries directly. */
function answerPreflight(message: IncomingMessage, response: ServerResponse): void {
  response.writeHead(204, {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": message.headers["access-control-request-headers"] ?? "content-type",
    "access-control-max-age": "7200",
  });
  response.end();
}

/**
 * Listens, and answers each request with what `serve` gives.
 *
 * @throws Node's own error where it cannot listen there
 */
export async function listen(
  address: { readonly host: string; readonly port: number },
  serve: (received: Received) => Promise<Answer | Ending>,
): Promise<Listener> {
  const server = createServer((message, response) => {
    // A client that goes away ends its own request alone.
    respond(message, response, serve).catch(() => message.socket.destroy());
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(address.port, address.host, resolve);
  });
  return new Listener(server, address.host);
}

export class Listener {
  readonly url: string;
  readonly #server: Server;

  constructor(server: Server, host: string) {
    this.#server = server;
    const { port } = server.address() as AddressInfo;
    this.url = `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
  }

  /** Stops listening and ends all connections. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }
}

async function respond(
  message: IncomingMessage,
  response: ServerResponse,
  serve: (received: Received) => Promise<Answer | Ending>,
): Promise<void> {
  response.setHeader("access-control-allow-origin", "*");
  response.setHeader("access-control-expose-headers", "traceparent");
  if (message.method === "OPTIONS") return answerPreflight(message, response);
  const body = await readBody(message);
  const url = URL.parse(`http://registry${message.url ?? "/"}`);
  if (body === undefined || url === null) {
    response.writeHead(body === undefined ? 413 : 400, { connection: "close" }).end();
    return;
  }
  const answer = await serve({ message, url, body });
  if (answer === "hang") return;
  if (answer === "reset") {
    message.socket.resetAndDestroy();
    return;
  }
  response.writeHead(answer.status, { ...answer.fields, "content-length": Buffer.byteLength(answer.body) });
  response.end(answer.body);
}

/** The whole body as text; undefined where it is too large. */
async function readBody(message: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Read to its end all the same: who still sends does not read an answer.
    if (bytes <= MOST_BYTES) chunks.push(chunk);
  }
  return bytes > MOST_BYTES ? undefined : Buffer.concat(chunks).toString("utf8");
}
