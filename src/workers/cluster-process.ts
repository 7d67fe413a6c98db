import type { Serializable } from "node:child_process";
import cluster, { type Worker } from "node:cluster";
import { fastify } from "fastify";
import type { Port } from "./peer.ts";
import { type ListenAddress, openListener } from "../http/listening.ts";
import type { WorkerProcess } from "./worker-process.ts";

/** The way to the primary, in a worker. */
export function portToPrimary(): Port {
  return portOf(cluster.worker!);
}

/** Starts this same program, with the same arguments, as one more worker. */
export function spawnWorker(): WorkerProcess {
  // Where the primary accepts for all (see `openListener`), it deals connections out in turn.
  cluster.schedulingPolicy = cluster.SCHED_RR;
  // Structured clones: bytes of entries stay bytes.
  cluster.setupPrimary({ serialization: "advanced" });
  const worker = cluster.fork();
  return {
    id: worker.id,
    pid: worker.process.pid,
    port: portOf(worker),
    kill: () => void worker.process.kill("SIGKILL"),
    onExit(listener) {
      worker.once("exit", (code: number | null, signal: string | null) => listener(signal ?? `exit code ${code}`));
    },
  };
}

/**
 * Sees to it that workers can share `port` (0: any) of `host`, and nobody else has it: sockets that share a port with
 * each other would share it with another gateway, too. Returns the port.
 *
 * @throws Error as `openListener`
 */
export async function reservePort(address: ListenAddress): Promise<number> {
  const probe = fastify();
  try {
    return await openListener(probe, address, "public");
  } finally {
    await probe.close();
  }
}

function portOf(worker: Worker): Port {
  return {
    send(message) {
      // Whoever waits for a reply hears that the other side is gone; the error itself says no more.
      if (worker.isConnected()) worker.process.send(message as Serializable, undefined, undefined, () => {});
    },
    onMessage(listener) {
      worker.on("message", listener);
    },
    onClose(listener) {
      let isClosed = false;
      const close = (): void => {
        if (!isClosed) listener();
        isClosed = true;
      };
      worker.once("disconnect", close);
      // A channel with something unread in it stays open when the process behind it has died.
      worker.once("exit", close);
    },
  };
}
