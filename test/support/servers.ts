import type { ChildProcess } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stringify } from "yaml";
import { isListening, startProgram, stop, untilUp } from "./forks.ts";
import { findFreePort } from "./ports.ts";
import { type Program, provideProgram, REDIS_SERVER } from "./programs.ts";

/** A server that is measured, in a process of its own. */
export interface Server {
  /** As tables call it. */
  readonly name: string;
  readonly pid: number;
  readonly port: number;
  readonly stop: () => Promise<void>;
}

export interface GatewayServer extends Server {
  readonly operationsPort: number;
  /** Ends it with grace, as a deploy does. */
  drain(): Promise<void>;
}

/** The gateway as a checkout runs it, and as a package does once it is built. */
export const SOURCE = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
export const BUILT = fileURLToPath(new URL("../../dist/main.js", import.meta.url));

/** What the image runs Node with. */
const DOCKERFILE = readFileSync(new URL("../../Dockerfile", import.meta.url), "utf8");
const NODE_OPTIONS = /NODE_OPTIONS=(\S+)/.exec(DOCKERFILE)!.slice(1);

/** Longer than `shutdown` allows. */
const DRAINING = 60_000;

interface GatewayOptions {
  /** Keys of the configuration besides the listeners. */
  readonly config: object;
  /** A folder of its own, for configuration and log. */
  readonly folder: string;
  readonly name?: string;
  readonly program?: string;
}

/** Starts the whole gateway and waits until it is ready. */
export async function startGateway(options: GatewayOptions): Promise<GatewayServer> {
  const { config, folder, name = "gateway", program = SOURCE } = options;
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "gateway.yaml");
  const logFile = join(folder, "gateway.log");
  const listener = { host: "127.0.0.1", port: 0 };
  writeFileSync(logFile, "");
  writeFileSync(file, stringify({ listen: listener, operations: listener, ...config }));
  const args = [...NODE_OPTIONS, "--disable-sigusr1", program, "start", "--config", file];
  const child = startProgram(process.execPath, args, logFile);
  const portOf = (key: string): number =>
    Number(new RegExp(`"${key}":"http://[^"]*:([0-9]+)`).exec(readFileSync(logFile, "utf8"))?.[1] ?? 0);
  await untilUp(child, logFile, () => portOf("operationsUrl") > 0);
  const operationsPort = portOf("operationsUrl");
  await untilUp(child, logFile, async () => (await fetch(`http://127.0.0.1:${operationsPort}/readyz`)).ok);
  const server = { name, pid: child.pid!, port: portOf("url"), operationsPort };
  // SIGINT: without grace.
  return { ...server, stop: () => stop(child, "SIGINT"), drain: () => stop(child, "SIGTERM", DRAINING) };
}

interface ConfiguredServer {
  readonly name: string;
  readonly program: Program;
  /** A folder of its own. */
  readonly folder: string;
  readonly port?: number;
  readonly configuration: (port: number) => string;
  readonly args: (file: string, port: number) => readonly string[];
}

/** Starts a program with a configuration file. Its child, for signals. */
export async function startConfigured(options: ConfiguredServer): Promise<Server & { readonly child: ChildProcess }> {
  const { name, program, folder, configuration, args } = options;
  const port = options.port ?? (await findFreePort());
  mkdirSync(folder, { recursive: true });
  const [file, logFile] = [join(folder, "configuration"), join(folder, "log")];
  writeFileSync(file, configuration(port));
  const child = startProgram(provideProgram(program), args(file, port), logFile);
  await untilUp(child, logFile, () => isListening(port));
  return { name, pid: child.pid!, port, child, stop: () => stop(child) };
}

/** Starts a Redis that keeps nothing on disk. */
export async function startRedisServer(folder: string, port?: number): Promise<Server & { readonly url: string }> {
  mkdirSync(folder, { recursive: true });
  const own = port ?? (await findFreePort());
  const logFile = join(folder, `redis-${own}.log`);
  const args = ["--port", String(own), "--bind", "127.0.0.1", "--save", "", "--dir", folder];
  const child = startProgram(provideProgram(REDIS_SERVER), args, logFile);
  await untilUp(child, logFile, () => isListening(own));
  return {
    name: "Redis",
    pid: child.pid!,
    port: own,
    url: `redis://127.0.0.1:${own}`,
    stop: () => stop(child, "SIGKILL"),
  };
}
