import { once } from "node:events";
import { createServer, connect, type AddressInfo, type Socket } from "node:net";
import { atEnd } from "./closing.ts";

/** What came back on one connection. */
export interface RawAnswer {
  /** Every byte until the other side ended the connection, as latin1. */
  readonly text: string;
  /** The statuses of the answers in it, in order. */
  readonly statuses: readonly number[];
  /** False when it was still open after `patience`. */
  readonly isClosed: boolean;
  /** Head (in lower case) and body of the first answer. */
  readonly head: string;
  readonly body: string;
}

interface RawOptions {
  /** How long silence is waited out. */
  readonly patience?: number;
  /** The client's side ends behind the last part, as `printf … | nc -N` does. */
  readonly isHalfClosed?: boolean;
}

/**
 * Sends bytes (latin1) as they are on one connection, and reads until the other side ends it or is silent for long.
 *
 * @param parts sent one after the other, each after the one before was taken by the kernel
 */
export async function sendRaw(
  base: string,
  parts: string | readonly string[],
  { patience = 10_000, isHalfClosed = false }: RawOptions = {},
): Promise<RawAnswer> {
  const { hostname, port } = new URL(base);
  const chunks: Buffer[] = [];
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  const isClosed = await new Promise<boolean>((resolve) => {
    socket.setTimeout(patience, () => resolve(false));
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.on("error", () => resolve(true));
    socket.on("end", () => resolve(true));
    for (const part of typeof parts === "string" ? [parts] : parts) socket.write(Buffer.from(part, "latin1"));
    if (isHalfClosed) socket.end();
  });
  socket.destroy();
  const text = Buffer.concat(chunks).toString("latin1");
  const end = text.indexOf("\r\n\r\n");
  return {
    text,
    statuses: statusesIn(text),
    isClosed,
    head: text.slice(0, Math.max(end, 0)).toLowerCase(),
    body: end === -1 ? "" : text.slice(end + 4),
  };
}

export function statusesIn(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.[01] (\d{3}) /g)].map(([, status]) => Number(status));
}

/** A connection that a test writes to and reads from as it goes. */
export class RawConnection {
  text = "";
  isClosed = false;
  readonly socket: Socket;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => (this.text += chunk));
    socket.on("error", () => undefined);
    socket.on("close", () => (this.isClosed = true));
    atEnd(() => socket.destroy());
  }

  static async open(base: string): Promise<RawConnection> {
    const { hostname, port } = new URL(base);
    const socket = connect(Number(port), hostname);
    await once(socket, "connect");
    return new RawConnection(socket);
  }

  write(text: string): void {
    this.socket.write(text, "latin1");
  }

  get statuses(): number[] {
    return statusesIn(this.text);
  }
}

/** Connects, sends, and resets the connection. */
export function sendAndReset(base: string, text: string): Promise<void> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve());
    socket.on("connect", () => socket.write(text, () => socket.resetAndDestroy()));
  });
}

/** A TCP server that does to each connection what `serve` does; its base URL. */
export async function startRawServer(serve: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    serve(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
