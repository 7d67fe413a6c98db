import { vi } from "vitest";
import { run } from "../../src/commands/cli.ts";
import type { Ended } from "./process.ts";

/** Those that `start` listens for. */
const SIGNALS = ["SIGHUP", "SIGINT", "SIGTERM", "SIGUSR2"] as const;

interface CommandOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/**
 * Runs a command of the program to its end in the test's own process, which costs a hundredth of a process. One at a time: what
 * it prints, its environment and its folder are the process's. `start`, `demo` and `sandbox` run until a signal: those are run
 * as processes, unless they are refused.
 */
export async function command(args: readonly string[], { env = {}, cwd }: CommandOptions = {}): Promise<Ended> {
  const printed = { stdout: "", stderr: "" };
  const spies = (["stdout", "stderr"] as const).map((stream) =>
    vi.spyOn(process[stream], "write").mockImplementation((text) => {
      printed[stream] += String(text);
      return true;
    }),
  );
  const place = process.cwd();
  const listeners = SIGNALS.map((signal) => process.listeners(signal));
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  try {
    if (cwd !== undefined) process.chdir(cwd);
    const code = await run(args);
    return { code, ...printed };
  } finally {
    process.chdir(place);
    for (const [i, signal] of SIGNALS.entries()) {
      for (const each of process.listeners(signal)) if (!listeners[i]!.includes(each)) process.off(signal, each);
    }
    vi.unstubAllEnvs();
    for (const spy of spies) spy.mockRestore();
  }
}
