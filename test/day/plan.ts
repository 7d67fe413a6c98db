import { randomHex, seededRandom } from "../../src/sandbox/random.ts";

/** A registry as it is known before the day. Its number is its place in the list, the most popular first. */
export interface Registry {
  readonly number: number;
  readonly alias: string;
  readonly admin: string;
  readonly instruments: number;
  readonly nodes: number;
  /** Milliseconds before an answer. */
  readonly latency: number;
  /** What it lets one client address ask in any window of `per` ms; more is 429. */
  readonly limit: { readonly requests: number; readonly per: number };
  /** Seconds that its `Cache-Control` says; undefined: it sends none. */
  readonly maxAge: number | undefined;
  readonly hasValidators: boolean;
  /** When its metadata changes, in milliseconds since the day began, in their order. */
  readonly changes: readonly number[];
}

/** A stretch of the day (ms since it began) in which something is wrong. */
export interface Fault {
  readonly name: FaultName;
  readonly from: number;
  readonly to: number;
  /** The registry that has it; undefined: it concerns all. */
  readonly registry: number | undefined;
}

/** `length` in ms. */
export interface Day {
  readonly length: number;
  readonly wallets: number;
  readonly registries: readonly Registry[];
  readonly faults: readonly Fault[];
}

const LATENCIES = [150, 20, 20, 400];
const LIMITS = [60_000, 1_000].map((per) => ({ requests: per === 60_000 ? 120 : 10, per }));
const [REGISTRIES, WALLETS_PER_MINUTE] = [60, 200];

/** When faults are, in seconds of a day of ten minutes, and the registry that has them. */
const FAULTS = [
  ["cold start", 0, 60],
  ["a node lags", 110, 150, 0],
  ["registry slow", 170, 210, 3],
  ["5 % are 429", 225, 285, 4],
  ["registry dead", 300, 420, 1],
  ["registry answers 503", 435, 465, 2],
  ["deploy", 475, 505],
  ["purge", 515, 530, 2],
  ["Redis killed", 535, 595],
] as const;
export type FaultName = (typeof FAULTS)[number][0];
export const FAULT_NAMES: readonly FaultName[] = FAULTS.map(([name]) => name);

/**
 * The day of `minutes` of real time. Only when things happen is squeezed into it, and the number of wallets: latencies,
 * limits, lifetimes and the rate of requests are the same in a short one.
 */
export function planDay(minutes: number): Day {
  const at = (second: number): number => second * 100 * minutes;
  const faults = FAULTS.map(([name, from, to, registry]) => ({ name, from: at(from), to: at(to), registry }));
  const purge = faults.find(({ name }) => name === "purge")!;
  const length = at(600);
  const registries = Array.from({ length: REGISTRIES }, (_none, number) => planRegistry(number, length, purge));
  return { length, wallets: Math.ceil(WALLETS_PER_MINUTE * minutes), registries, faults };
}

function planRegistry(number: number, length: number, purge: Fault): Registry {
  const random = seededRandom(number + 1);
  const changes: number[] = [];
  // Supplies move; two registries never at the same moment.
  for (let at = 10_000 + random() * 20_000; at < length; at += 30_000 + random() * 30_000) changes.push(Math.round(at));
  if (purge.registry === number) {
    // The operator purges after this change, and no other falls near it.
    const others = changes.filter((at) => at < purge.from - 2_000 || at > purge.to);
    changes.splice(0, changes.length, ...[...others, Math.round(purge.from)].toSorted((a, b) => a - b));
  }
  return {
    number,
    alias: `r${number}`,
    admin: `registrar-${number}::1220${randomHex(random, 64)}`,
    instruments: number === 1 || number === 2 ? 250 : 1 + ((number * 7) % 20),
    nodes: number === 0 ? 13 : 1,
    latency: LATENCIES[number % LATENCIES.length]!,
    limit: LIMITS[number % LIMITS.length]!,
    maxAge: number === 7 ? 5 : undefined,
    hasValidators: number !== 6,
    changes,
  };
}

/** The fault that `registry` has `at` milliseconds after the day began. */
export function faultAt(day: Day, registry: number, at: number): FaultName | undefined {
  return day.faults.find((fault) => fault.registry === registry && at >= fault.from && at < fault.to)?.name;
}

/** A choice among `count` things, of which the n-th is chosen 1/n as often as the first. */
export function zipf(count: number): (random: number) => number {
  let sum = 0;
  const sums = Array.from({ length: count }, (_none, i) => (sum += 1 / (i + 1)));
  return (random) => {
    const at = sums.findIndex((each) => each > random * sum);
    return at === -1 ? count - 1 : at;
  };
}
