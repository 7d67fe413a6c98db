import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** How long a process may take to start or to end. */
const PATIENCE = 15_000;

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Starts a program with its output in `logFile`. It never outlives this process. */
export function startProgram(command: string, args: readonly string[], logFile: string): ChildProcess {
  const log = openSync(logFile, "a");
  const child = spawn(command, args, { stdio: ["ignore", log, log] });
  closeSync(log);
  return keep(child);
}

/**
 * Starts `file`, beside this one, with `options` as its argument, and waits until it tells its port (0: it has none).
 * Such a process ends with this one, see {@link optionsOfParent}.
 */
export async function startProcess(
  file: string,
  options: unknown = {},
): Promise<{ readonly child: ChildProcess; readonly port: number }> {
  const child = keep(fork(fileURLToPath(new URL(file, import.meta.url)), [JSON.stringify(options)]));
  const { port } = await ask<{ port: number }>(child);
  return { child, port };
}

/** Sends a message, if there is one, and waits for the next one from the process. */
export async function ask<Reply>(child: ChildProcess, message?: object, patience = PATIENCE): Promise<Reply> {
  const end = new AbortController();
  const timer = setTimeout(() => end.abort(), patience);
  try {
    const ended = once(child, "exit", { signal: end.signal }).then(() => {
      throw new Error(`${child.spawnfile} ended unexpectedly`);
    });
    const reply = once(child, "message", { signal: end.signal });
    if (message !== undefined) child.send(message);
    const [value] = (await Promise.race([reply, ended])) as [Reply];
    return value;
  } finally {
    clearTimeout(timer);
    end.abort();
  }
}

/** Ends a process, by force when it takes too long. */
export async function stop(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE);
  await ended;
  clearTimeout(timer);
}

function keep(child: ChildProcess): ChildProcess {
  running.add(child);
  child.once("exit", () => running.delete(child));
  return child;
}
