import type { Load, Measurement } from "./load.ts";
import type { LoadPlan } from "./load-plan.ts";
import type { BenchServer } from "./server.ts";
import { type Spread, spreadOf } from "./spread.ts";

/** A server and the load that it gets. */
export interface Contestant {
  readonly server: BenchServer;
  readonly plan: Omit<LoadPlan, "port">;
}

export interface Rounds {
  readonly rounds: number;
  /** Changes the plan of the nth run, warm-up included, where runs must not repeat each other. */
  readonly vary?: (plan: LoadPlan, run: number) => LoadPlan;
}

/** All measurements of all rounds, by the server's name. */
export class Comparison {
  private readonly measurements: ReadonlyMap<string, readonly Measurement[]>;

  constructor(measurements: ReadonlyMap<string, readonly Measurement[]>) {
    this.measurements = measurements;
  }

  /** Microseconds of CPU per request. */
  cpu(name: string): Spread {
    return spreadOf(this.of(name).map(({ cpu }) => cpu));
  }

  /** What `name` used of `what`, as a share of what `baseline` used in the same round. */
  ratio(name: string, baseline: string, what: "cpu" | "p50" | "p99" = "cpu"): Spread {
    const others = this.of(baseline);
    return spreadOf(this.of(name).map((each, round) => each[what] / others[round]![what]));
  }

  private of(name: string): readonly Measurement[] {
    return this.measurements.get(name)!;
  }
}

const WARM_UPS = 6;

/**
 * Measures servers one after the other, round after round: a machine that gets busier or hotter does so for all of them.
 * Each round begins with another one. The first runs are not counted: they let compilers and caches warm up.
 */
export async function compare(
  load: Load,
  contestants: readonly Contestant[],
  { rounds, vary = (plan) => plan }: Rounds,
): Promise<Comparison> {
  const measurements = new Map<string, Measurement[]>(contestants.map(({ server }) => [server.name, []]));
  for (let run = 0; run < WARM_UPS + rounds; run += 1) {
    for (let i = 0; i < contestants.length; i += 1) {
      const { server, plan } = contestants[(i + run) % contestants.length]!;
      const measurement = await load
        .run(vary({ ...plan, port: server.port }, run), server.pid)
        .catch((error: unknown) => {
          throw new Error(`${server.name}: ${String(error)}`, { cause: error });
        });
      if (run >= WARM_UPS) measurements.get(server.name)!.push(measurement);
    }
  }
  return new Comparison(measurements);
}
