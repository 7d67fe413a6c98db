import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** How long a process may take to start, to answer or to end on a busy machine. */
const PATIENCE = 120_000;

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Starts a program with its output in `logFile`. It never outlives this process. */
export function startProgram(command: string, args: readonly string[], logFile: string, env = {}): ChildProcess {
  const log = openSync(logFile, "a");
  const child = spawn(command, args, { stdio: ["ignore", log, log], env: { ...process.env, ...env } });
  closeSync(log);
  return keep(child);
}

/** Starts a file as a process of its own, and waits for what it tells first ({@link tellParent}). It ends with this process. */
export async function startModule(file: URL, options: object): Promise<{ child: ChildProcess; told: unknown }> {
  const child = keep(fork(fileURLToPath(file), [JSON.stringify(options)], { execArgv: [] }));
  return { child, told: await ask(child) };
}

/** Sends a message, if there is one, and waits for the next one from the process. */
export async function ask(child: ChildProcess, message?: object | string, patience = PATIENCE): Promise<unknown> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(new Error("a process of the bench answers nothing")), patience);
  try {
    const ended = once(child, "exit", { signal: over.signal }).then(() => {
      throw new Error(`${child.spawnargs.join(" ").slice(0, 200)} ended`);
    });
    const reply = once(child, "message", { signal: over.signal });
    if (message !== undefined) child.send(message);
    const [value] = (await Promise.race([reply, ended])) as [unknown];
    return value;
  } finally {
    clearTimeout(timer);
    over.abort();
  }
}

/** Ends a process, by force when it takes too long. */
export async function stop(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM", patience = 15_000): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  const timer = setTimeout(() => child.kill("SIGKILL"), patience);
  await ended;
  clearTimeout(timer);
}

/** Waits until something listens on the port, or `isUp` says so; fails with what the process wrote when it ends first. */
export async function untilUp(child: ChildProcess, logFile: string, isUp: () => boolean | Promise<boolean>) {
  const end = performance.now() + PATIENCE;
  while (!(await isUp())) {
    const isOver = child.exitCode !== null || child.signalCode !== null || performance.now() > end;
    if (isOver) throw new Error(`${child.spawnfile} did not start:\n${readFileSync(logFile, "utf8").slice(-4_000)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** A folder for the files of servers. */
export function newFolder(name: string): { readonly folder: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), `registry-gateway-${name}-`));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** In a process of {@link startModule}: its options. It ends when the process that started it does. */
export function optionsOfParent(): unknown {
  process.on("disconnect", () => process.exit());
  return JSON.parse(process.argv[2] ?? "{}") as unknown;
}

/** In such a process: tells the one that started it something. */
export function tellParent(message: object): void {
  process.send!(message);
}

function keep(child: ChildProcess): ChildProcess {
  running.add(child);
  child.once("exit", () => running.delete(child));
  return child;
}
