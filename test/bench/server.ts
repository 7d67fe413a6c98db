import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** A server under test, in a process of its own. */
export interface BenchServer {
  /** As the table calls it. */
  readonly name: string;
  readonly pid: number;
  readonly port: number;
  stop(): Promise<void>;
}

/** With a thousand upstreams on a busy machine, too. */
const START_PATIENCE = 120_000;

/** Waits until something listens on `port`; fails when the process ends first, with what it wrote. */
export async function untilListening(child: ChildProcess, port: number, logFile: string): Promise<void> {
  await until(child, logFile, () => isListening(port));
}

/** Waits until `condition` holds of a process that is starting. */
export async function until(
  child: ChildProcess,
  logFile: string,
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  const end = performance.now() + START_PATIENCE;
  while (!(await condition())) {
    if (child.exitCode !== null || child.signalCode !== null || performance.now() > end) {
      throw new Error(`${child.spawnfile} did not start:\n${readFileSync(logFile, "utf8")}`);
    }
    await sleep(20);
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}
