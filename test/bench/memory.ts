import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "../support/until.ts";
import { type BenchGateway, type GatewayOptions, startGateway } from "./gateway.ts";

/** How long a garbage collection may take on a busy machine. */
const PATIENCE = 300_000;

/** A gateway that can be asked to collect its garbage. */
export interface CollectingGateway extends BenchGateway {
  /** Bytes that are in use after a garbage collection. */
  memory(): Promise<Memory>;
}

export interface Memory {
  /** Of the heap, and of what it holds outside. */
  readonly used: number;
  readonly resident: number;
}

export async function startCollecting(options: Omit<GatewayOptions, "program">): Promise<CollectingGateway> {
  const program = fileURLToPath(new URL("collecting-gateway.ts", import.meta.url));
  const gateway = await startGateway({ ...options, program });
  return { ...gateway, memory: () => memoryOf(gateway.pid, join(options.folder, "gateway.log")) };
}

async function memoryOf(pid: number, logFile: string): Promise<Memory> {
  const told = () => readFileSync(logFile, "utf8").match(/^\{"collected":.*$/gm) ?? [];
  const before = told().length;
  process.kill(pid, "SIGUSR2");
  await until(() => told().length > before, PATIENCE);
  return (JSON.parse(told().at(-1)!) as { collected: Memory }).collected;
}

/** Resident bytes of a process as it is. */
export function residentOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) * 1024;
}
