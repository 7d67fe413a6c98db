import { setTimeout as sleep } from "node:timers/promises";
import { cpuTime } from "../bench/cpu-time.ts";
import type { BenchGateway } from "../bench/gateway.ts";
import { type CollectingGateway, startCollecting } from "../bench/memory.ts";
import { parseExposition, type Series } from "../support/exposition.ts";
import { until } from "../support/until.ts";
import type { ScaleContext } from "./table.ts";

/** How long a gateway may take until it has done what is waited for. */
const PATIENCE = 300_000;

export interface ScaledGateway extends CollectingGateway {
  /** Milliseconds from the start of the process to `/readyz`, and to the proof of every admin. */
  readonly ready: number;
  readonly proved: number;
  /** Milliseconds of CPU until every admin was proved. */
  readonly provedCpu: number;
}

/** Starts one and waits until the admin of every upstream is proved. */
export async function startScaled(context: ScaleContext, config: Record<string, unknown>): Promise<ScaledGateway> {
  const folder = context.newFolder();
  const begun = performance.now();
  const gateway = await context.started(startCollecting({ config, folder }));
  let ready = 0;
  await until(async () => {
    const response = await fetch(`http://127.0.0.1:${gateway.operationsPort}/readyz`);
    const { upstreams } = (await response.json()) as { upstreams: readonly { readonly state: string }[] };
    if (response.ok && ready === 0) ready = performance.now() - begun;
    return ready > 0 && upstreams.every(({ state }) => state === "up");
  }, PATIENCE);
  const proved = performance.now() - begun;
  const provedCpu = cpuTime(gateway.pid) / 1e6;
  return { ...gateway, ready, proved, provedCpu };
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
