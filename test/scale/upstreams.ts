import { setTimeout as sleep } from "node:timers/promises";
import { capture, requestText } from "../bench/client.ts";
import { compare, type Contestant } from "../bench/comparison.ts";
import { cpuTime } from "../bench/cpu-time.ts";
import { residentOf } from "../bench/memory.ts";
import type { Load } from "../bench/load.ts";
import type { LoadPlan } from "../bench/load-plan.ts";
import { spreadOf } from "../bench/spread.ts";
import { idleCpu, type ScaledGateway, scrape, startScaled } from "./gateways.ts";
import { pagePath, startRegistries } from "./registries.ts";
import { round, type ScaleContext, type ScaleTable } from "./table.ts";

const CONNECTIONS = 32;
const SCRAPES = 5;

/** Of each registry. */
const INSTRUMENTS = 20;

/** What more registries cost: each with a page in memory. */
export async function measureUpstreams(context: ScaleContext): Promise<ScaleTable> {
  const sizes = context.isSmall ? [3, 30] : [10, 100, 1_000];
  const registries = await context.started(startRegistries({ count: sizes.at(-1)!, instruments: INSTRUMENTS }));
  const gateways: ScaledGateway[] = [];
  for (const size of sizes) gateways.push(await startScaled(context, registries.configOf(size)));
  // Of few upstreams, and asked for as many pages: what bytes cost that no cache of the CPU holds, whosever they are.
  const control = await startScaled(context, registries.configOf(sizes[0]!));
  const all = [...gateways, control];
  // What follows a start is over by then, V8's looks for what can be given back too: they take as long as there is much.
  await sleep(context.isSmall ? 500 : 25_000);
  const idle = await idleCpu(all, context.isSmall ? 2 : 30);
  const load = withoutIdle(context.load, new Map(all.map(({ pid }, at) => [pid, idle[at]!])));
  const hits = await compareHits({ ...context, load }, { gateways, control, sizes });
  const resident = gateways.map(({ pid }) => residentOf(pid));
  // Before scrapes, whose texts of megabytes are counted as used for a while after they were sent.
  const memory = await Promise.all(gateways.map((gateway) => gateway.memory()));
  const scrapes: Scrape[] = [];
  for (const gateway of gateways) scrapes.push(await scrapeOften(gateway));
  return {
    what: "upstreams",
    sizes: sizes.map((size) => round(size)),
    rows: [
      ["CPU of a memory hit, all upstreams in turn", ...hits.all],
      ["CPU of a memory hit, always the same upstream", ...hits.one],
      [`CPU of a memory hit, as many pages of one upstream of ${sizes[0]}, in turn`, ...hits.pages],
      ["resident, after the hits", ...resident.map((bytes) => `${round(bytes / 1e6)} MB`)],
      ["in use after a garbage collection", ...memory.map(({ used }) => `${round(used / 1e6)} MB`)],
      ["start to `/readyz`", ...gateways.map(({ ready }) => `${round(ready / 1000, 1)} s`)],
      ["start until every admin is proved", ...gateways.map(({ proved }) => `${round(proved / 1000, 1)} s`)],
      ["CPU until then", ...gateways.map(({ provedCpu }) => `${round(provedCpu / 1000, 1)} s`)],
      ["one `/metrics`", ...scrapes.map(({ bytes, cpu }) => `${round(bytes / 1000)} kB, ${round(cpu)} ms of CPU`)],
      ["CPU when idle, a second", ...gateways.map((_, at) => `${round(idle[at]!, 1)} ms`)],
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

/** Where hits go: to all upstreams in turn, always to the same, or to as many pages of one. */
const WAYS = ["all", "one", "pages"] as const;
type Way = (typeof WAYS)[number];

interface Hits {
  readonly gateways: readonly ScaledGateway[];
  readonly control: ScaledGateway;
  readonly sizes: readonly number[];
}

/** Microseconds for each size, and beside those of the smallest in the same rounds. */
async function compareHits(
  context: Pick<ScaleContext, "isSmall"> & { readonly load: Pick<Load, "run"> },
  { gateways, control, sizes }: Hits,
): Promise<Record<Way, string[]>> {
  const { body } = await capture(control.port, { method: "GET", path: pagePath(0) });
  const expected = { status: 200, bodyLength: Buffer.from(body, "base64").length, headHolds: ";hit" };
  const plan = { connections: CONNECTIONS, count: context.isSmall ? 300 : 3_000, expected };
  const contestants = sizes.flatMap((size, at) =>
    WAYS.map((way): Contestant => {
      const server = { ...(way === "pages" ? control : gateways[at]!), name: `${way} ${size}` };
      return { server, plan: { ...plan, ...requestsOf(way, size) } };
    }),
  );
  const rounds = context.isSmall ? { rounds: 3, warmUp: 300 } : { rounds: 15, warmUp: 12_000 };
  const measured = await compare(context.load, contestants, rounds);
  const cellsOf = (way: Way) =>
    sizes.map((size, at) => {
      const name = `${way} ${size}`;
      if (measured.holding(name) < 1) throw new Error(`${name}: not all answers were memory hits`);
      const cpu = `${round(measured.cpu(name).median, 1)} µs`;
      return at === 0 ? cpu : `${cpu} (× ${round(measured.ratio(name, `${way} ${sizes[0]}`).median, 2)})`;
    });
  return { all: cellsOf("all"), one: cellsOf("one"), pages: cellsOf("pages") };
}

function requestsOf(way: Way, size: number): Pick<LoadPlan, "request" | "numbering" | "from" | "period"> {
  const requests = (path: string) => ({ request: requestText({ method: "GET", path }) });
  if (way === "one") return requests(pagePath(0));
  if (way === "all") return { ...requests(pagePath("{n}")), numbering: "each", from: 0, period: size };
  // However many instruments they may hold, all of them are on each.
  return { ...requests(pagePath(0, "{n}")), numbering: "each", from: INSTRUMENTS, period: size };
}

interface Scrape {
  readonly bytes: number;
  /** Milliseconds. */
  readonly cpu: number;
}

async function scrapeOften(gateway: ScaledGateway): Promise<Scrape> {
  let bytes = 0;
  const times: number[] = [];
  for (let i = 0; i < SCRAPES; i += 1) {
    const before = cpuTime(gateway.pid);
    bytes = (await scrape(gateway)).text.length;
    times.push((cpuTime(gateway.pid) - before) / 1e6);
  }
  return { bytes, cpu: spreadOf(times).median };
}
