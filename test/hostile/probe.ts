import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";

/** What a worker is to ask for. */
export interface Task {
  readonly host: string;
  readonly port: number;
  /** Of a fresh hit. */
  readonly path: string;
  readonly pid: number;
}

/** What hits had to wait for, between a `begin` and an `end`. */
export interface Held {
  /** Milliseconds of CPU that the gateway's loop spent between the question and the answer of a hit, at the most. */
  worst: number;
  hits: number;
  /** Answers that were no 200, or the end of the connection. */
  failures: number;
}

/** Milliseconds that the main thread of a process was on a CPU (proc_pid_schedstat). */
export function spentBy(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "latin1").split(" ", 1)[0]) / 1e6;
}

/**
 * Run as a worker, so that what a test does in its own loop delays no question: asks for one hit after the other over one
 * connection. What the gateway's loop spends meanwhile is what others made the hit wait, on however busy a machine.
 */
async function run({ host, port, path, pid }: Task): Promise<void> {
  const socket = connect(port, host);
  socket.setEncoding("latin1").setNoDelay();
  socket.on("error", () => undefined);
  let text = "";
  let answered = Promise.withResolvers<boolean>();
  socket.on("close", () => answered.resolve(false));
  socket.on("data", (chunk: string) => {
    text += chunk;
    const head = text.indexOf("\r\n\r\n");
    if (head === -1 || text.length < head + 4 + Number(/content-length: (\d+)/i.exec(text)![1])) return;
    answered.resolve(text.startsWith("HTTP/1.1 200"));
    text = "";
  });
  let held: Held | undefined;
  let isEnding = false;
  parentPort!.on("message", (message: "begin" | "end") => {
    if (message === "begin") held = { worst: 0, hits: 0, failures: 0 };
    isEnding = message === "end";
  });
  for (;;) {
    await pause(1);
    if (held === undefined) continue;
    answered = Promise.withResolvers();
    const began = spentBy(pid);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: probe\r\n\r\n`);
    const isGood = await answered.promise;
    if (isGood) held.worst = Math.max(held.worst, spentBy(pid) - began);
    held.hits += 1;
    held.failures += isGood ? 0 : 1;
    if (held.hits === 1) parentPort!.postMessage("begun");
    if (!isEnding && isGood) continue;
    parentPort!.postMessage(held);
    held = undefined;
    isEnding = false;
  }
}

if (parentPort !== null) void run(workerData as Task);
