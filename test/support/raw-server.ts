import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { onTestFinished } from "vitest";

export interface RawServer {
  readonly port: number;
  readonly sockets: ReadonlySet<Socket>;
  /** Connections accepted so far. */
  readonly accepted: number;
  stop(): Promise<void>;
}

/** A TCP server that does to each connection what `serve` does, and ends with the test. */
export async function startRawServer(serve: (socket: Socket) => void): Promise<RawServer> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  const server: Server = createServer((socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    // What is not read hides that the other side went away.
    socket.resume();
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  onTestFinished(stop);
  return {
    stop,
    port: (server.address() as AddressInfo).port,
    sockets,
    get accepted() {
      return accepted;
    },
  };
}
