import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stringify } from "yaml";
import { startProgram, stop } from "./child.ts";
import { type BenchServer, until } from "./server.ts";

export interface GatewayOptions {
  /** Keys of the configuration file, beside the listeners. */
  readonly config: Record<string, unknown>;
  /** A folder of its own. */
  readonly folder: string;
  readonly name?: string;
  /** The program: by default the gateway's own. */
  readonly program?: string;
}

export interface BenchGateway extends BenchServer {
  readonly operationsPort: number;
}

/** The Dockerfile's NODE_OPTIONS: what the image runs Node with. */
const NODE_OPTIONS = /^ENV NODE_OPTIONS=(.*)$/m
  .exec(readFileSync(new URL("../../Dockerfile", import.meta.url), "utf8"))![1]!
  .split(" ");

/** The whole gateway as the image runs it, its log in a file. */
export async function startGateway({ config, folder, name, program }: GatewayOptions): Promise<BenchGateway> {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "gateway.yaml");
  const logFile = join(folder, "gateway.log");
  const listener = { host: "127.0.0.1", port: 0 };
  writeFileSync(logFile, "");
  writeFileSync(file, stringify({ listen: listener, operations: listener, ...config }));
  const main = program ?? fileURLToPath(new URL("../../src/main.ts", import.meta.url));
  const child = startProgram(process.execPath, [...NODE_OPTIONS, main, "start", "--config", file], logFile);
  await until(child, logFile, () => portIn(logFile, "publicPort") !== undefined);
  return {
    name: name ?? "gateway",
    pid: child.pid!,
    port: portIn(logFile, "publicPort")!,
    operationsPort: portIn(logFile, "operationsPort")!,
    // SIGINT: without grace.
    stop: () => stop(child, "SIGINT"),
  };
}

/** A port that the log line `listening` tells. */
function portIn(logFile: string, field: "publicPort" | "operationsPort"): number | undefined {
  const port = new RegExp(`"${field}":([0-9]+)`).exec(readFileSync(logFile, "utf8"))?.[1];
  return port === undefined ? undefined : Number(port);
}
