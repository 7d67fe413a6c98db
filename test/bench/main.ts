import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { newFolder } from "../support/forks.ts";
import { type Load, type Measurement, startLoad } from "./load.ts";
import { describeMachine, loadNow, table, writeSection } from "./report.ts";
import { type Comparison, type Contestant, type Scene, type Stage, STAGES } from "./stages.ts";

const USAGE = `npm run bench -- [--quick] [--only STAGE] … [--rounds N] [--beside FILE] [--write]

CPU per request of the gateway beside other servers, in turns, as ratios within a round.

  --quick        two minutes: fewer requests before and in each round
  --only STAGE   ${Object.keys(STAGES).join(", ")}
  --rounds N     how often each server is measured (9)
  --beside FILE  another program of the gateway, such as dist/main.js, or another checkout's src/main.ts
  --write        put the table into docs/performance.md`;

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string", multiple: true },
    rounds: { type: "string", default: "9" },
    beside: { type: "string" },
    write: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

/** Requests that each server gets before it is measured, for compilers and caches; share of the requests of a round. */
const [WARM_UP, SHARE] = values.quick ? [5_000, 0.4] : [10_000, 1];
const ROUNDS = Number(values.rounds);

/** Tries of a run, and ms between: on a busy machine a gateway may find that it has too much to do. */
const [TRIES, PAUSE] = [4, 3_000];

async function main(): Promise<void> {
  if (values.help) return console.log(USAGE);
  const unknown = values.only?.find((name) => !(name in STAGES));
  if (unknown !== undefined || !(ROUNDS >= 1)) throw new Error(USAGE);
  const loadBefore = loadNow();
  const rows: string[][] = [["what", "against", "CPU per request", "ratio", "middle half", "mark"]];
  const load = await startLoad();
  try {
    for (const [name, prepare] of Object.entries(STAGES)) {
      if (values.only?.includes(name) === false) continue;
      const began = performance.now();
      rows.push(...(await play(prepare, load)));
      console.error(`${name}: ${((performance.now() - began) / 1_000).toFixed(1)} s`);
    }
  } finally {
    await load.stop();
  }
  const how = `Medians of ${ROUNDS} rounds, ${describeMachine()}, the machine's load ${loadBefore} before and ${loadNow()} at the end.`;
  const report = [...table(rows), "", how].join("\n");
  console.log(report);
  if (values.write) writeSection("bench", report);
}

async function play(prepare: Stage, load: Load): Promise<string[][]> {
  const work = newFolder("bench");
  await using ending = new AsyncDisposableStack();
  ending.defer(() => work.remove());
  let folders = 0;
  const scene: Scene = {
    async started(starting) {
      const server = await starting;
      ending.defer(() => server.stop());
      return server;
    },
    folder: () => join(work.folder, String((folders += 1))),
    beside: values.beside,
  };
  const rows: string[][] = [];
  for (const comparison of await prepare(scene)) rows.push(...(await compare(comparison, load)));
  return rows;
}

/** Measures servers one after the other, round after round, each round beginning with another one. */
async function compare({ what, contestants, marks = {}, numbers = 0, holding = 0 }: Comparison, load: Load) {
  const measured = contestants.map((): Measurement[] => []);
  const warmUps = Math.ceil(WARM_UP / roundCount(contestants[0]!.plan));
  for (let run = 0; run < warmUps + ROUNDS; run += 1) {
    for (let turn = 0; turn < contestants.length; turn += 1) {
      const at = (turn + run) % contestants.length;
      // Who waited for its turn, and had its garbage collected meanwhile, warms up again.
      for (const measures of [false, true]) {
        const from = numbers > 0 ? { from: 1 + (2 * run + Number(measures)) * numbers } : {};
        const measurement = await runPatiently(load, contestants[at]!, from);
        if (measures && run >= warmUps) measured[at]!.push(measurement);
      }
    }
  }
  const [ours, ...others] = measured;
  const held = Math.min(...ours!.map((each) => each.holding));
  if (held < holding) throw new Error(`${what}: only ${held} of the answers were such`);
  return others.map((those, i) => {
    const { name } = contestants[i + 1]!.server;
    const [low, median, high] = spread(ours!.map(({ cpu }, round) => cpu / those[round]!.cpu));
    const cpu = [ours!, those].map((all) => spread(all.map((each) => each.cpu))[1].toFixed(1)).join(" : ");
    const mark = marks[name];
    const ratio = `${median.toFixed(2)}${mark !== undefined && median > mark ? " ✗" : ""}`;
    const half = `${low.toFixed(2)}–${high.toFixed(2)}`;
    return [what, name, `${cpu} µs`, ratio, half, mark === undefined ? "" : `≤ ${mark}`];
  });
}

/** The median, and between what half of the values are. */
function spread(values: readonly number[]): [low: number, median: number, high: number] {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.round((sorted.length - 1) * share)]!;
  return [at(0.25), at(0.5), at(0.75)];
}

/** Whole waves. */
function roundCount({ count, connections }: Contestant["plan"]): number {
  return Math.ceil((count * SHARE) / connections) * connections;
}

async function runPatiently(load: Load, { server, plan }: Contestant, from: object): Promise<Measurement> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await load.run({ ...plan, ...from, count: roundCount(plan), port: server.port }, server.pid);
    } catch (error) {
      if (tries === TRIES) throw new Error(`${server.name}: ${String(error)}`, { cause: error });
      await sleep(PAUSE);
    }
  }
}

// Signals end the bench as errors do: what it started ends with the process.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
await main();
