import { setTimeout as sleep } from "node:timers/promises";
import { capture, requestText } from "../bench/client.ts";
import { compare, type Contestant } from "../bench/comparison.ts";
import { cpuTime } from "../bench/cpu-time.ts";
import type { Load } from "../bench/load.ts";
import { spreadOf } from "../bench/spread.ts";
import { idleCpu, residentOf, type ScaledGateway, scrape, startScaled } from "./gateways.ts";
import { pagePath, startRegistries } from "./registries.ts";
import { round, type ScaleContext, type ScaleTable } from "./table.ts";

const CONNECTIONS = 32;
const SCRAPES = 5;

/** What more registries cost: each with a page in memory. */
export async function measureUpstreams(context: ScaleContext): Promise<ScaleTable> {
  const sizes = context.isSmall ? [3, 30] : [10, 100, 1_000];
  const registries = await context.started(startRegistries({ count: sizes.at(-1)!, instruments: 20 }));
  const gateways: ScaledGateway[] = [];
  for (const size of sizes) gateways.push(await startScaled(context, registries.configOf(size)));
  // What follows a start is over by then.
  await sleep(context.isSmall ? 500 : 5_000);
  const idle = await idleCpu(gateways, context.isSmall ? 2 : 15);
  const load = withoutIdle(context.load, new Map(gateways.map(({ pid }, at) => [pid, idle[at]!])));
  const hits = await compareHits({ ...context, load }, gateways, sizes);
  const scrapes = await Promise.all(gateways.map(scrapeOften));
  const memory = await Promise.all(gateways.map((gateway) => gateway.memory()));
  return {
    what: "upstreams",
    sizes: sizes.map((size) => round(size)),
    rows: [
      ["CPU of a memory hit, all upstreams in turn", ...hits.all],
      ["CPU of a memory hit, always the same upstream", ...hits.one],
      ["resident, after the hits", ...gateways.map(({ pid }) => `${round(residentOf(pid) / 1e6)} MB`)],
      ["in use after a garbage collection", ...memory.map(({ used }) => `${round(used / 1e6)} MB`)],
      ["start to `/readyz`", ...gateways.map(({ ready }) => `${round(ready / 1000, 1)} s`)],
      ["start until every admin is proved", ...gateways.map(({ proved }) => `${round(proved / 1000, 1)} s`)],
      ["CPU until then", ...gateways.map(({ provedCpu }) => `${round(provedCpu / 1000, 1)} s`)],
      ["one `/metrics`", ...scrapes.map(({ bytes, cpu }) => `${round(bytes / 1000)} kB, ${round(cpu)} ms of CPU`)],
      ["CPU when idle, a second", ...idle.map((cpu) => `${round(cpu, 1)} ms`)],
    ],
  };
}

/** What requests cost, without what a process uses all the time: rounds take longer on a busy machine. */
function withoutIdle(load: Pick<Load, "run">, idle: ReadonlyMap<number, number>): Pick<Load, "run"> {
  return {
    async run(plan, pid) {
      const measured = await load.run(plan, pid);
      // Milliseconds a second are microseconds a millisecond.
      return { ...measured, cpu: measured.cpu - (idle.get(pid)! * measured.elapsed) / plan.count };
    },
  };
}

/** Microseconds for each size, and beside those of the smallest in the same rounds. */
async function compareHits(
  context: Pick<ScaleContext, "isSmall"> & { readonly load: Pick<Load, "run"> },
  gateways: readonly ScaledGateway[],
  sizes: readonly number[],
): Promise<Record<"all" | "one", string[]>> {
  const ways = ["all", "one"] as const;
  const contestants: Contestant[] = [];
  for (const [at, gateway] of gateways.entries()) {
    const { body } = await capture(gateway.port, { method: "GET", path: pagePath(0) });
    const expected = { status: 200, bodyLength: Buffer.from(body, "base64").length, headHolds: ";hit" };
    const count = context.isSmall ? 300 : 3_000;
    for (const way of ways) {
      const path = pagePath(way === "all" ? "{n}" : 0);
      const numbered = { numbering: "each", from: 0, period: sizes[at]! } as const;
      const request = requestText({ method: "GET", path });
      const plan = { connections: CONNECTIONS, count, request, expected, ...(way === "all" ? numbered : {}) };
      contestants.push({ server: { ...gateway, name: `${way} ${sizes[at]}` }, plan });
    }
  }
  const rounds = context.isSmall ? { rounds: 3, warmUp: 300 } : { rounds: 7, warmUp: 6_000 };
  const measured = await compare(context.load, contestants, rounds);
  const cellsOf = (way: "all" | "one") =>
    sizes.map((size, at) => {
      const name = `${way} ${size}`;
      if (measured.holding(name) < 1) throw new Error(`${name}: not all answers were memory hits`);
      const cpu = `${round(measured.cpu(name).median, 1)} µs`;
      return at === 0 ? cpu : `${cpu} (× ${round(measured.ratio(name, `${way} ${sizes[0]}`).median, 2)})`;
    });
  return { all: cellsOf("all"), one: cellsOf("one") };
}

async function scrapeOften(gateway: ScaledGateway): Promise<{ readonly bytes: number; readonly cpu: number }> {
  let bytes = 0;
  const times: number[] = [];
  for (let i = 0; i < SCRAPES; i += 1) {
    const before = cpuTime(gateway.pid);
    bytes = (await scrape(gateway)).text.length;
    times.push((cpuTime(gateway.pid) - before) / 1e6);
  }
  return { bytes, cpu: spreadOf(times).median };
}
