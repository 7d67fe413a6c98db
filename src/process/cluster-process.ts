import type { ChildProcess, Serializable } from "node:child_process";
import cluster, { type Worker } from "node:cluster";
import { type AddressInfo, createServer } from "node:net";
import type { Port } from "../coordinator/cluster-peer.ts";
import type { WorkerProcess } from "./worker-process.ts";

/** The way to the primary, in a worker. */
export function portToPrimary(): Port {
  return portOf(cluster.worker!);
}

/**
 * Starts this same program, with the same arguments, as one more worker.
 *
 * @param codeFolder where compiled code is kept for the next one
 */
export function spawnWorker(codeFolder: string | undefined): WorkerProcess {
  // The primary takes connections and deals them out in turn: one port works alike on every system, and no worker
  // gets all of them.
  cluster.schedulingPolicy = cluster.SCHED_RR;
  // Structured clones: bytes of entries stay bytes.
  cluster.setupPrimary({ serialization: "advanced" });
  const worker = cluster.fork(codeFolder === undefined ? {} : { NODE_COMPILE_CACHE: codeFolder });
  closeForgotten(worker.process);
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
 * A free port of `host`. Workers must agree on one before the first of them has it: a worker that asks for port 0 later
 * than the others would get a port of its own.
 */
export async function findPort(host: string): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return port;
}

/** A connection on its way to a worker, as Node's cluster module says it. */
interface HandOff {
  readonly cmd: "NODE_CLUSTER";
  readonly act: "newconn";
  readonly seq: number;
}

interface NativeHandle {
  /** Negative when it is closed. */
  readonly fd: number;
  close(): void;
}

/**
 * Sees to it that no connection is forgotten with a worker. Node hands one over and waits for the worker to say that it
 * has taken it; where the worker dies in between, Node keeps the connection open, and the client would wait for ever.
 */
function closeForgotten(child: ChildProcess): void {
  const handed = new Map<number, NativeHandle>();
  const send = child.send.bind(child) as (...args: unknown[]) => boolean;
  child.send = (...args: unknown[]) => {
    const [message, handle] = args;
    if (isHandOff(message)) handed.set(message.seq, handle as NativeHandle);
    return send(...args);
  };
  child.on("internalMessage", ({ ack }: { readonly ack?: number }) => {
    if (ack !== undefined) handed.delete(ack);
  });
  // Whatever it may have said last, it takes nothing any more. The channel itself may stay open with what was not read.
  child.once("exit", () => {
    for (const handle of handed.values()) if (handle.fd >= 0) handle.close();
    handed.clear();
  });
}

function isHandOff(message: unknown): message is HandOff {
  const { cmd, act, seq } = (message ?? {}) as Partial<Record<keyof HandOff, unknown>>;
  return cmd === "NODE_CLUSTER" && act === "newconn" && typeof seq === "number";
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
