import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { atEnd } from "./closing.ts";
import { type Line, OperationsSite, temporaryFolder, type Values, withDefaults } from "./gateway.ts";
import { Site } from "./http.ts";
import { until } from "./until.ts";

const ROOT = join(import.meta.dirname, "../..");

/** The program as a checkout runs it. */
export const PROGRAM: readonly string[] = [process.execPath, "--disable-sigusr1", join(ROOT, "src/main.ts")];

/** What a command printed, and how it ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface RunOptions {
  /** Another program than the checkout's, as a package installed somewhere. */
  readonly program?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** A child process of the program; it ends with the test or the file. */
export class Child {
  stdout = "";
  stderr = "";
  readonly ended: Promise<number | null>;
  private readonly child: ChildProcess;

  constructor(args: readonly string[], { program = PROGRAM, env = {}, cwd }: RunOptions = {}) {
    const [command = "", ...first] = program;
    this.child = spawn(command, [...first, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...env },
      ...(cwd !== undefined && { cwd }),
    });
    this.child.stdout!.on("data", (chunk: Buffer) => (this.stdout += chunk.toString()));
    this.child.stderr!.on("data", (chunk: Buffer) => (this.stderr += chunk.toString()));
    const kill = (): void => void this.child.kill("SIGKILL");
    process.once("exit", kill);
    // "close", not "exit": all output has been read by then.
    this.ended = once(this.child, "close").then(([code]) => {
      process.off("exit", kill);
      return code as number | null;
    });
    atEnd(() => this.end());
  }

  get pid(): number {
    return this.child.pid!;
  }

  get isRunning(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Log lines so far, parsed. */
  get lines(): readonly Line[] {
    const whole = this.stdout.split("\n").slice(0, -1);
    return whole.map((line) => JSON.parse(line) as Line);
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  /** Ends it, whatever it does. */
  async end(): Promise<number | null> {
    if (this.isRunning) this.child.kill("SIGINT");
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 10_000);
    const code = await this.ended;
    clearTimeout(timer);
    return code;
  }
}

/** Runs a command of the program to its end. */
export async function run(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const child = new Child(args, options);
  const code = await child.ended;
  return { code, stdout: child.stdout, stderr: child.stderr };
}

/** A gateway in a process of its own, with a configuration file that a test may write anew. */
export interface GatewayProcess {
  readonly site: Site;
  readonly operations: OperationsSite;
  readonly child: Child;
  readonly folder: string;
  readonly file: string;
  write(values: Values): void;
}

/** Starts the program with a file of these keys, on any free ports, and waits until it is ready. */
export async function startProcess(values: Values, options: RunOptions = {}): Promise<GatewayProcess> {
  const folder = temporaryFolder();
  const file = join(folder, "gateway.yaml");
  const write = (keys: Values): void => {
    writeFileSync(`${file}.new`, stringify(withDefaults(keys)));
    // The gateway never reads half of it.
    renameSync(`${file}.new`, file);
  };
  write(values);
  const child = new Child(["start", "--config", file], options);
  const { url, operationsUrl } = await until(() => {
    if (!child.isRunning) throw new Error(`the gateway ended:\n${child.stdout}${child.stderr}`);
    return child.lines.find((line) => line["operationsUrl"] !== undefined);
  });
  const site = new Site(String(url));
  const operations = new OperationsSite(String(operationsUrl));
  await until(async () => (await operations.get("/readyz")).status === 200);
  return { site, operations, child, folder, file, write };
}
