import { join } from "node:path";
import type { Comparison } from "./comparison.ts";
import type { Load } from "./load.ts";
import type { BenchServer } from "./server.ts";
import type { Spread } from "./spread.ts";

/** One line of the table: what a thing costs, as a multiple of what another one costs. */
export interface Result {
  readonly what: string;
  readonly against: string;
  /** Of CPU time, unless `what` says otherwise. */
  readonly ratio: Spread;
  /** What the ratio may be at most, and what is aimed at. */
  readonly bound?: number;
  readonly aim?: number;
  /** Microseconds of CPU per request, of the thing and of the other. */
  readonly cpu?: readonly [number, number];
}

/** What a row works with. */
export interface BenchContext {
  readonly load: Load;
  readonly rounds: number;
  readonly warmUp: number;
  readonly folder: string;
  /** Registers a server to be stopped when the row is over. */
  started<Server extends { stop(): Promise<void> }>(server: Promise<Server>): Promise<Server>;
  /** Says that something was left out, and why. */
  note(text: string): void;
}

export interface Row {
  readonly name: string;
  run(context: BenchContext): Promise<Result[]>;
}

/** What ratios may be, by the name of what is compared with. */
export type Limits = Readonly<Record<string, Pick<Result, "bound" | "aim">>>;

/** The lines that compare the CPU of `server` with that of each of the `others`. */
export function cpuResults(
  measured: Comparison,
  what: string,
  [server, ...others]: readonly BenchServer[],
  limits: Limits = {},
): Result[] {
  return others.map(({ name }) =>
    Object.assign(
      {
        what,
        against: name,
        ratio: measured.ratio(server!.name, name),
        cpu: [measured.cpu(server!.name).median, measured.cpu(name).median] as const,
      },
      limits[name],
    ),
  );
}

let folders = 0;

/** A new folder for a server's files. */
export function newFolder({ folder }: BenchContext): string {
  folders += 1;
  return join(folder, String(folders));
}
