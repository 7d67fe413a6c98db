import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { cpuTime } from "../bench/cpu-time.ts";
import { type BenchGateway, startGateway } from "../bench/gateway.ts";
import { parseExposition, type Series } from "../support/exposition.ts";
import { until } from "../support/redis.ts";
import type { ScaleContext } from "./table.ts";

/** How long a gateway may take until it has done what is waited for. */
const PATIENCE = 300_000;

/** A gateway that can be asked to collect its garbage. */
export interface ScaledGateway extends BenchGateway {
  /** Milliseconds from the start of the process to `/readyz`, and to the proof of every admin. */
  readonly ready: number;
  readonly proved: number;
  /** Milliseconds of CPU until every admin was proved. */
  readonly provedCpu: number;
  /** Bytes that are in use after a garbage collection. */
  memory(): Promise<Memory>;
}

export interface Memory {
  /** Of the heap, and of what it holds outside. */
  readonly used: number;
  readonly resident: number;
}

/** Starts one and waits until the admin of every upstream is proved. */
export async function startScaled(context: ScaleContext, config: Record<string, unknown>): Promise<ScaledGateway> {
  const folder = context.newFolder();
  const begun = performance.now();
  const program = fileURLToPath(new URL("collecting-gateway.ts", import.meta.url));
  const gateway = await context.started(startGateway({ config, folder, program }));
  let ready = 0;
  await until(async () => {
    const response = await fetch(`http://127.0.0.1:${gateway.operationsPort}/readyz`);
    const { upstreams } = (await response.json()) as { upstreams: readonly { readonly state: string }[] };
    if (response.ok && ready === 0) ready = performance.now() - begun;
    return ready > 0 && upstreams.every(({ state }) => state === "up");
  }, PATIENCE);
  const proved = performance.now() - begun;
  const provedCpu = cpuTime(gateway.pid) / 1e6;
  return { ...gateway, ready, proved, provedCpu, memory: () => memoryOf(gateway.pid, `${folder}/gateway.log`) };
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

/** `/metrics`, once. */
export async function scrape({
  operationsPort,
}: BenchGateway): Promise<{ text: string; series(name: string): Series[] }> {
  const text = await (await fetch(`http://127.0.0.1:${operationsPort}/metrics`)).text();
  return {
    text,
    series: (name) => parseExposition(text).filter((each) => each.name === `registry_gateway_${name}`),
  };
}

/** Milliseconds of CPU a second that processes use by themselves. */
export async function idleCpu(gateways: readonly BenchGateway[], seconds: number): Promise<number[]> {
  const before = gateways.map(({ pid }) => cpuTime(pid));
  await sleep(seconds * 1000);
  return gateways.map(({ pid }, at) => (cpuTime(pid) - before[at]!) / 1e6 / seconds);
}
