import { connect, createServer } from "node:net";

/**
 * A port that is free, and stays this test's until its process ends: of those that the system gives to nobody by itself, so that
 * a server that was killed finds it free again. The claim is a name that one socket of the machine can have (Linux).
 */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    if (!(await isAnswering(port)) && (await isClaimed(port))) return port;
  }
  throw new Error("no free port");
}

function isClaimed(port: number): Promise<boolean> {
  if (process.platform !== "linux") return Promise.resolve(true);
  const holder = createServer();
  holder.unref();
  return new Promise((resolve) => {
    holder.once("error", () => resolve(false));
    holder.listen({ path: `\0registry-gateway-test-port-${port}` }, () => resolve(true));
  });
}

function isAnswering(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
