import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, vi } from "vitest";
import { run } from "../../src/commands/run.ts";
import { PROGRAM } from "./program.ts";

/** The program in a process of its own, as a person starts it. */
export class Command {
  stdout = "";
  stderr = "";
  /** The exit code; null when a signal ended it. */
  readonly ended: Promise<number | null>;
  private readonly child: ChildProcess;

  constructor(args: readonly string[], env: Record<string, string> = {}) {
    const { GATEWAY_CONFIG: _, ...inherited } = process.env;
    this.child = spawn(process.execPath, [PROGRAM, ...args], {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...inherited, ...env },
    });
    this.child.stdout!.on("data", (chunk: Buffer) => (this.stdout += chunk.toString()));
    this.child.stderr!.on("data", (chunk: Buffer) => (this.stderr += chunk.toString()));
    // "close", not "exit": all output has been read by then.
    this.ended = once(this.child, "close").then(([code]) => code as number | null);
  }

  get isRunning(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** What it logged so far, parsed; throws when a line is no JSON. */
  get lines(): readonly Record<string, unknown>[] {
    return this.stdout
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** The first match in what it printed to stdout, as soon as it is there. */
  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.stdout);
      if (match !== null) return match;
      if (!this.isRunning) throw new Error(`it ended without printing ${pattern}:\n${this.stdout}\n${this.stderr}`);
      await Promise.race([once(this.child.stdout!, "data"), this.ended]);
    }
  }

  /** As a person types a line and presses Enter. */
  type(line: string): void {
    this.child.stdin!.write(`${line}\n`);
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }
}

/** What became of a command that ended by itself. */
export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command that ends by itself in this process: for what it prints, where the test is not about the process. */
export async function runHere(args: readonly string[], env: Record<string, string> = {}): Promise<Outcome> {
  const printed = { stdout: "", stderr: "" };
  const listeners = process.stdout.listeners("error");
  const spies = (["stdout", "stderr"] as const).map((name) =>
    vi.spyOn(process[name], "write").mockImplementation((text) => {
      printed[name] += String(text);
      return true;
    }),
  );
  for (const [name, value] of Object.entries({ GATEWAY_CONFIG: undefined, ...env })) vi.stubEnv(name, value);
  try {
    const code = await run(args);
    return { code, ...printed };
  } finally {
    vi.unstubAllEnvs();
    for (const spy of spies) spy.mockRestore();
    for (const listener of process.stdout.listeners("error")) {
      if (!listeners.includes(listener)) process.stdout.off("error", listener as () => void);
    }
  }
}

/** Runs commands that are killed after each test, should they still run. */
export function useCommands(): (args: readonly string[], env?: Record<string, string>) => Command {
  const running: Command[] = [];
  afterEach(async () => {
    for (const command of running.splice(0)) {
      if (command.isRunning) command.signal("SIGKILL");
      await command.ended;
    }
  });
  return (args, env) => {
    const command = new Command(args, env);
    running.push(command);
    return command;
  };
}
