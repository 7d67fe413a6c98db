import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import type { Socket } from "node:net";
import { join } from "node:path";
import { stringify } from "yaml";
import { PROGRAM } from "./program.ts";
import { findFreePort, until } from "./redis.ts";

/** Who it runs as, and where its log goes when it is not read here. */
export interface ProcessUser {
  readonly stdout?: Socket;
  readonly uid?: number;
  readonly gid?: number;
}

/** A gateway in a process of its own, as operators run it. */
export class GatewayProcess {
  readonly url: string;
  readonly operations: string;
  /** `host:port` of the operations listener. */
  readonly target: string;
  /** The configuration file. */
  readonly file: string;
  private readonly child: ChildProcess;
  private readonly folder: string;
  private output = "";

  private constructor(
    ports: { public: number; operations: number },
    folder: string,
    command: readonly string[],
    { stdout, ...user }: ProcessUser,
  ) {
    this.url = `http://127.0.0.1:${ports.public}`;
    this.target = `127.0.0.1:${ports.operations}`;
    this.operations = `http://${this.target}`;
    this.folder = folder;
    this.file = join(folder, "gateway.yaml");
    this.child = spawn(command[0]!, [...command.slice(1), "start", "--config", this.file], {
      stdio: ["ignore", stdout ?? "pipe", "inherit"],
      ...user,
    });
    this.child.stdout?.on("data", (chunk: Buffer) => (this.output += chunk.toString()));
    process.once("exit", () => this.child.kill("SIGKILL"));
  }

  /**
   * Starts one and waits until it is ready.
   *
   * @param keys of the configuration; listeners are on loopback and free ports
   * @param command the program; by default the built one
   * @param user who it runs as; by default who runs this
   */
  static async start(
    keys: Record<string, unknown>,
    command: readonly string[] = [process.execPath, PROGRAM],
    user: ProcessUser = {},
  ): Promise<GatewayProcess> {
    const ports = { public: await findFreePort(), operations: await findFreePort() };
    const folder = mkdtempSync(join(tmpdir(), "gateway-"));
    const config = {
      ...keys,
      listen: { host: "127.0.0.1", port: ports.public },
      operations: { ...(keys["operations"] as object), host: "127.0.0.1", port: ports.operations },
    };
    writeFileSync(join(folder, "gateway.yaml"), stringify(config));
    if (user.uid !== undefined) chmodSync(folder, 0o755);
    const gateway = new GatewayProcess(ports, folder, command, user);
    await until(() => gateway.isReady(), 50_000);
    return gateway;
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Log lines so far, parsed. */
  get lines(): readonly Record<string, unknown>[] {
    const complete = this.output.split("\n").slice(0, -1);
    return complete.map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  /** Ends it; returns its exit code. */
  async stop(): Promise<number | null> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const ended = once(this.child, "exit");
      this.child.kill("SIGINT");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
    return this.child.exitCode;
  }

  private async isReady(): Promise<boolean> {
    if (this.child.exitCode !== null) throw new Error(`the gateway ended with ${this.child.exitCode}:\n${this.output}`);
    try {
      return (await fetch(`${this.operations}/readyz`)).ok;
    } catch {
      return false;
    }
  }
}
