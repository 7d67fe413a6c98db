import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** A TCP proxy before a server that can be made slow, silent or dead. */
export interface SlowProxy {
  readonly port: number;
  /** Milliseconds that everything takes on its way, in each direction. */
  latency: number;
  /**
   * While true, bytes vanish: connections stay open and nothing comes back. One that lost bytes stays dead afterwards,
   * as behind a gateway that forgot it; new ones work.
   */
  blackhole: boolean;
  /** What vanished so far. */
  readonly swallowed: string;
  /** Ends every connection; new ones are accepted. */
  cut(): void;
  stop(): Promise<void>;
}

/** Forwards to `port` on loopback. */
export async function startSlowProxy(port: number): Promise<SlowProxy> {
  const sockets = new Set<Socket>();
  let swallowed = "";
  const server = createServer((client) => {
    const target = connect(port, "127.0.0.1");
    let isDead = false;
    const forward = (chunk: Buffer, to: Socket): void => {
      isDead ||= proxy.blackhole;
      if (isDead) return void (swallowed += chunk.toString("latin1"));
      const send = () => to.write(chunk);
      // Timers of one delay fire in the order they were set, so bytes keep theirs as long as the latency only grows.
      if (proxy.latency === 0) send();
      else setTimeout(send, proxy.latency);
    };
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      from.on("data", (chunk) => forward(chunk, to));
      from.on("error", () => {});
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy: SlowProxy = {
    port: (server.address() as AddressInfo).port,
    latency: 0,
    blackhole: false,
    get swallowed() {
      return swallowed;
    },
    cut: () => {
      for (const socket of sockets) socket.destroy();
    },
    stop: async () => {
      server.close();
      proxy.cut();
      await once(server, "close");
    },
  };
  return proxy;
}
