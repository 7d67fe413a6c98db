import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { PROGRAM } from "./program.ts";
import { findFreePort } from "./ports.ts";
import { until } from "./until.ts";

/** Several processes may start at once on a machine that is busy with other tests. */
const READY_WITHIN = 50_000;

/** One that is of no use any more may take so long to end by itself. */
const END_WITHIN = 30_000;

export interface ProcessOptions {
  /** One that has ended, whose ports it takes; by default free ones of loopback. */
  readonly predecessor?: GatewayProcess | undefined;
  /** The program; by default the built one. */
  readonly command?: readonly string[];
  /** Where its log goes when it is not read here. */
  readonly stdout?: Socket | number;
}

/** A gateway in a process of its own, whose file, signals and end a test controls. */
export class GatewayProcess {
  readonly url: string;
  readonly operations: string;
  /** `host:port` of the operations listener. */
  readonly target: string;
  readonly folder: string;
  readonly file: string;
  readonly ended: Promise<number | null>;
  stderr = "";
  private readonly base: { readonly listen: object; readonly operations: object };
  private readonly child: ChildProcess;
  private stdout = "";

  private constructor(
    ports: { public: number; operations: number },
    keys: Record<string, unknown>,
    { command = [process.execPath, PROGRAM], stdout }: ProcessOptions,
  ) {
    this.url = `http://127.0.0.1:${ports.public}`;
    this.target = `127.0.0.1:${ports.operations}`;
    this.operations = `http://${this.target}`;
    this.folder = mkdtempSync(join(tmpdir(), "gateway-process-"));
    this.file = join(this.folder, "gateway.yaml");
    this.base = {
      listen: { host: "127.0.0.1", port: ports.public },
      operations: { host: "127.0.0.1", port: ports.operations },
    };
    this.write(keys);
    this.child = spawn(command[0]!, [...command.slice(1), "start", "--config", this.file], {
      stdio: ["ignore", stdout ?? "pipe", "pipe"],
    });
    this.child.stdout?.on("data", (chunk: Buffer) => (this.stdout += chunk.toString()));
    this.child.stderr!.on("data", (chunk: Buffer) => (this.stderr += chunk.toString()));
    const kill = (): void => void this.child.kill("SIGKILL");
    process.once("exit", kill);
    // "close", not "exit": all output has been read by then.
    this.ended = once(this.child, "close").then(([code]) => {
      process.off("exit", kill);
      return code as number | null;
    });
  }

  /** Starts a gateway with these keys, and waits until it is ready. */
  static async start(keys: Record<string, unknown>, options: ProcessOptions = {}): Promise<GatewayProcess> {
    const { predecessor } = options;
    const portOf = async (url: string | undefined) => (url === undefined ? findFreePort() : Number(new URL(url).port));
    const ports = { public: await portOf(predecessor?.url), operations: await portOf(predecessor?.operations) };
    const gateway = new GatewayProcess(ports, keys, options);
    try {
      await until(() => gateway.isReady(), READY_WITHIN);
    } catch (error) {
      await gateway.stop();
      throw error;
    }
    return gateway;
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Log lines so far, parsed. */
  get lines(): readonly Record<string, unknown>[] {
    return this.stdout
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** Log lines with this message. */
  said(msg: string): readonly Record<string, unknown>[] {
    return this.lines.filter((line) => line["msg"] === msg);
  }

  /** The text of a configuration with these keys, on this process's ports unless the keys say otherwise. */
  text(keys: Record<string, unknown>): string {
    const { listen, operations } = this.base;
    return stringify({
      ...keys,
      listen: { ...listen, ...(keys["listen"] as object | undefined) },
      operations: { ...operations, ...(keys["operations"] as object | undefined) },
    });
  }

  /** Writes the configuration file in place. */
  write(keys: Record<string, unknown>): void {
    writeFileSync(this.file, this.text(keys));
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  /** The value of a metric's only series, or the sum of those that hold `labels`. */
  async metric(name: string, labels = ""): Promise<number> {
    const text = await (await fetch(`${this.operations}/metrics`)).text();
    return sumOf(text, name, labels);
  }

  async status<T>(): Promise<T> {
    return (await (await fetch(`${this.operations}/status`)).json()) as T;
  }

  /** Ends it, whatever it does, and removes its files; returns its exit code. */
  async stop(): Promise<number | null> {
    const isRunning = this.child.exitCode === null && this.child.signalCode === null;
    if (isRunning) this.child.kill("SIGINT");
    const timer = setTimeout(() => this.child.kill("SIGKILL"), END_WITHIN);
    const code = await this.ended;
    clearTimeout(timer);
    rmSync(this.folder, { recursive: true, force: true });
    return code;
  }

  private async isReady(): Promise<boolean> {
    if (this.child.exitCode !== null) {
      throw new Error(`the gateway ended with ${this.child.exitCode}:\n${this.stdout}${this.stderr}`);
    }
    try {
      return (await fetch(`${this.operations}/readyz`)).ok;
    } catch {
      return false;
    }
  }
}

/** The sum of a metric's series in an exposition, of those that hold `labels`. */
function sumOf(exposition: string, name: string, labels = ""): number {
  let sum = 0;
  for (const line of exposition.split("\n")) {
    const [series = "", value = ""] = line.split(" ");
    if ((series === name || series.startsWith(`${name}{`)) && series.includes(labels)) sum += Number(value);
  }
  return sum;
}
