import { connect, createServer } from "node:net";

/**
 * Takes a port for this process, until it ends: who asks for one listens seconds later on a busy machine, and the other
 * workers of the runner look for ports meanwhile. The claim is a name that one socket of the machine can have; where
 * there are no such names, chance has to do.
 */
async function claim(port: number): Promise<boolean> {
  if (process.platform !== "linux") return true;
  const holder = createServer();
  holder.unref();
  return new Promise<boolean>((resolve) => {
    holder.once("error", () => resolve(false));
    holder.listen({ path: `\0registry-gateway-test-port-${port}` }, () => resolve(true));
  });
}

/**
 * A free port below those the system hands out to outgoing connections: a server that was killed finds it free again.
 */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const probe = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      probe.once("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (isFree && !(await isAnswering(port)) && (await claim(port))) return port;
  }
  throw new Error("no free port");
}

/** Whether something of this machine listens there. */
export function isAnswering(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
