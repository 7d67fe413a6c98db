import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";

/** Serve TLS with this certificate (PEM); with `requestCert`, only clients whose certificate `ca` vouches for. */
export interface ListenerTls {
  key: string | Buffer;
  cert: string | Buffer;
  ca?: string | Buffer;
  requestCert?: boolean;
}

/** An HTTP listener that can go away and come back on the same port. */
export class Listener {
  private readonly host: string;
  private readonly serve: RequestListener;
  private readonly tls: ListenerTls | undefined;
  private readonly sockets = new Set<Socket>();
  private server: Server | undefined;
  private boundPort: number;
  /** Connections accepted so far. */
  accepted = 0;

  constructor(options: { host: string; port: number; tls: ListenerTls | undefined; serve: RequestListener }) {
    this.host = options.host;
    this.boundPort = options.port;
    this.tls = options.tls;
    this.serve = options.serve;
  }

  /** The port, once listening; it stays the same from then on. */
  get port(): number {
    return this.boundPort;
  }

  /** Connections open now. */
  get connections(): number {
    return this.sockets.size;
  }

  get isListening(): boolean {
    return this.server !== undefined;
  }

  /** Listens; does nothing when it does already. Rejects when the port is taken. */
  async open(): Promise<void> {
    if (this.server !== undefined) return;
    const server = this.createServer();
    this.server = server;
    // Longer than any pool keeps a connection: a test ends connections when it means to.
    server.keepAliveTimeout = 600_000;
    server.on("connection", (socket: Socket) => {
      this.accepted += 1;
      this.sockets.add(socket);
      socket.once("close", () => this.sockets.delete(socket));
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", (error) => {
        this.server = undefined;
        reject(error);
      });
      server.listen(this.boundPort, this.host, resolve);
    });
    this.boundPort = (server.address() as AddressInfo).port;
  }

  /** Stops listening and destroys every connection; from then on connections are refused. */
  async close(): Promise<void> {
    const { server } = this;
    if (server === undefined) return;
    this.server = undefined;
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  private createServer(): Server {
    if (this.tls === undefined) return createServer(this.serve);
    return createTlsServer({ ...this.tls, rejectUnauthorized: this.tls.requestCert === true }, this.serve);
  }
}

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
