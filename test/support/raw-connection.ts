import { connect, type Socket } from "node:net";

/** What came back on one connection. */
export interface RawAnswer {
  /** Every byte until the other side ended the connection, as latin1. */
  readonly text: string;
  /** The statuses of the answers in it, in order. */
  readonly statuses: readonly number[];
  /** False when it was still open after `patience`. */
  readonly isClosed: boolean;
}

/**
 * Sends bytes as they are on one connection, and reads until the other side ends it or is silent for `patience`.
 *
 * @param parts sent one after the other, each after the one before was taken by the kernel
 */
export function sendRaw(base: string, parts: string | readonly string[], patience = 10_000): Promise<RawAnswer> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket: Socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    function finish(isClosed: boolean): void {
      socket.destroy();
      const text = Buffer.concat(chunks).toString("latin1");
      const statuses = [...text.matchAll(/HTTP\/1\.[01] (\d{3}) /g)].map(([, status]) => Number(status));
      resolve({ text, statuses, isClosed });
    }
    socket.setTimeout(patience, () => finish(false));
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.on("error", () => finish(true));
    socket.on("end", () => finish(true));
    for (const part of typeof parts === "string" ? [parts] : parts) socket.write(Buffer.from(part, "latin1"));
  });
}

/** Sends a request and half-closes the connection at once, as `printf … | nc -N` does; what came back. */
export function sendAndHalfClose(base: string, request: string): Promise<string> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    socket.setEncoding("latin1");
    socket.setTimeout(10_000, () => socket.destroy(new Error("silent for ten seconds")));
    socket.on("data", (chunk: string) => (text += chunk));
    socket.on("error", reject);
    socket.on("end", () => {
      socket.destroy();
      resolve(text);
    });
    socket.end(request, "latin1");
  });
}

/** Connects, sends and resets the connection. */
export function sendAndReset(base: string, request: string): Promise<void> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve());
    socket.on("connect", () => socket.write(request, () => socket.resetAndDestroy()));
  });
}

/** The head and body of the first answer. */
export function firstAnswer({ text }: RawAnswer): { readonly head: string; readonly body: string } {
  const end = text.indexOf("\r\n\r\n");
  return { head: text.slice(0, end).toLowerCase(), body: text.slice(end + 4) };
}
