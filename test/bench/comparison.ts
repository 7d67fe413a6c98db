import { setTimeout as sleep } from "node:timers/promises";
import type { Load, Measurement } from "./load.ts";
import type { LoadPlan } from "./load-plan.ts";
import type { BenchServer } from "./server.ts";
import { type Spread, spreadOf } from "./spread.ts";

/** A server and the load that it gets. Several processes of one name are measured one after the other, as one. */
export interface Contestant {
  readonly server: BenchServer;
  readonly plan: Omit<LoadPlan, "port">;
}

export interface Rounds {
  readonly rounds: number;
  /** Requests that each server gets before it is measured: compilers and caches have to warm up. */
  readonly warmUp: number;
  /** Changes the plan of the nth run, warm-up included, where runs must not repeat each other. */
  readonly vary?: (plan: LoadPlan, run: number) => LoadPlan;
}

/** All measurements of all rounds, by the server's name. */
export class Comparison {
  private readonly measurements: ReadonlyMap<string, readonly Measurement[]>;

  constructor(measurements: ReadonlyMap<string, readonly Measurement[]>, runs: number) {
    this.runs = runs;
    this.measurements = measurements;
  }

  /** How often each server ran, warm-up included. */
  readonly runs: number;

  /** Microseconds of CPU per request. */
  cpu(name: string): Spread {
    return spreadOf(this.of(name).map(({ cpu }) => cpu));
  }

  /** What `name` used of `what`, as a share of what `baseline` used in the same round. */
  ratio(name: string, baseline: string, what: keyof Measurement = "cpu"): Spread {
    const others = this.of(baseline);
    return spreadOf(this.of(name).map((each, round) => each[what] / others[round]![what]));
  }

  /** Share of answers whose head held what was expected, in the worst round. */
  holding(name: string): number {
    return Math.min(...this.of(name).map(({ holding }) => holding));
  }

  private of(name: string): readonly Measurement[] {
    return this.measurements.get(name)!;
  }
}

/** Of a run, and how long to wait in between: a gateway that sheds asks for three seconds. */
const TRIES = 4;
const PAUSE = 3_500;

/**
 * Measures servers one after the other, round after round: a machine that gets busier or hotter does so for all of them.
 * Each round begins with another one.
 */
export async function compare(
  load: Pick<Load, "run">,
  contestants: readonly Contestant[],
  { rounds, warmUp, vary = (plan) => plan }: Rounds,
): Promise<Comparison> {
  const measurements = new Map<string, Measurement[]>(contestants.map(({ server }) => [server.name, []]));
  const warmUps = Math.ceil(warmUp / contestants[0]!.plan.count);
  for (let run = 0; run < warmUps + rounds; run += 1) {
    for (let i = 0; i < contestants.length; i += 1) {
      const { server, plan } = contestants[(i + run) % contestants.length]!;
      const measurement = await runPatiently(load, server, vary({ ...plan, port: server.port }, run));
      if (run >= warmUps) measurements.get(server.name)!.push(measurement);
    }
  }
  return new Comparison(
    new Map([...measurements].map(([name, all]) => [name, inRounds(all, rounds)])),
    warmUps + rounds,
  );
}

/** Once more where a run failed: on a machine that others use as well, the gateway may find that it has too much to do. */
async function runPatiently(load: Pick<Load, "run">, { name, pid }: BenchServer, plan: LoadPlan): Promise<Measurement> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await load.run(plan, pid);
    } catch (error) {
      if (tries === TRIES) throw new Error(`${name}: ${String(error)}`, { cause: error });
      await sleep(PAUSE);
    }
  }
}

/** The means of the processes of one name, round by round. */
function inRounds(measurements: readonly Measurement[], rounds: number): Measurement[] {
  const processes = measurements.length / rounds;
  return Array.from({ length: rounds }, (_, round) => {
    const those = measurements.slice(round * processes, (round + 1) * processes);
    const mean = (what: keyof Measurement) => those.reduce((sum, each) => sum + each[what], 0) / processes;
    return { cpu: mean("cpu"), elapsed: mean("elapsed"), p50: mean("p50"), p99: mean("p99"), holding: mean("holding") };
  });
}
