import { seeded } from "./random.ts";

/** What is known of one registry before the day begins. Its number is its place in the list, the most popular first. */
export interface Registry {
  readonly number: number;
  readonly alias: string;
  /** The party id of its admin. */
  readonly admin: string;
  readonly instruments: number;
  readonly nodes: number;
  /** Milliseconds before an answer. */
  readonly latency: number;
  /** What it lets one client address ask in any window; more is 429. */
  readonly limit: { readonly requests: number; readonly per: number };
  /** Seconds that its `Cache-Control` says; undefined: it sends none. */
  readonly maxAge: number | undefined;
  readonly hasValidators: boolean;
  /** When its metadata changes, in milliseconds since the day began, in their order. */
  readonly changes: readonly number[];
}

export type FaultName =
  | "cold start"
  | "node dead"
  | "registry hangs"
  | "registry limits"
  | "registry down"
  | "registry sends HTML"
  | "restart"
  | "purge"
  | "Redis gone";

/** A stretch of the day in which something is wrong. */
export interface Fault {
  readonly name: FaultName;
  /** Milliseconds since the day began. */
  readonly from: number;
  readonly to: number;
  /** The registry that has it; undefined: it concerns all. */
  readonly registry: number | undefined;
}

export interface Day {
  /** Milliseconds. */
  readonly length: number;
  readonly wallets: number;
  readonly registries: readonly Registry[];
  readonly faults: readonly Fault[];
}

const LATENCIES = [150, 20, 20, 400];
const LIMITS = [
  { requests: 120, per: 60_000 },
  { requests: 10, per: 1_000 },
];

/** When faults are, in seconds of a day of ten minutes, and the registry that has them. */
const FAULTS: readonly [name: FaultName, from: number, to: number, registry?: number][] = [
  ["cold start", 0, 60],
  ["node dead", 120, 150, 0],
  ["registry hangs", 170, 200, 3],
  ["registry limits", 220, 280, 4],
  ["registry down", 300, 420, 1],
  ["registry sends HTML", 435, 465, 2],
  ["restart", 475, 505],
  ["purge", 515, 530, 2],
  ["Redis gone", 535, 595],
];
const TEN_MINUTES = 600_000;

/**
 * The day of `minutes` of real time. Only when things happen is squeezed into it, and the number of wallets: latencies,
 * limits, lifetimes and the rate of requests are the same in a short one.
 */
export function planDay(minutes: number, registries = 60): Day {
  const length = minutes * 60_000;
  const at = (second: number) => (second * 1000 * length) / TEN_MINUTES;
  const faults = FAULTS.filter(([, , , registry = 0]) => registry < registries).map(([name, from, to, registry]) => ({
    name,
    from: at(from),
    to: at(to),
    registry,
  }));
  const purge = faults.find(({ name }) => name === "purge");
  return {
    length,
    wallets: Math.ceil(200 * minutes),
    registries: Array.from({ length: registries }, (_, number) => planRegistry(number, length, purge)),
    faults,
  };
}

function planRegistry(number: number, length: number, purge: Fault | undefined): Registry {
  const random = seeded(number + 1);
  const changes: number[] = [];
  // Supplies move; two registries never at the same moment.
  for (let at = 10_000 + random() * 20_000; at < length; at += 30_000 + random() * 30_000) changes.push(Math.round(at));
  if (purge?.registry === number) {
    // The operator purges after this one, and no other falls near it.
    const others = changes.filter((at) => at < purge.from - 2_000 || at > purge.to);
    changes.splice(0, changes.length, ...others, Math.round(purge.from));
    changes.sort((a, b) => a - b);
  }
  const digest = Array.from({ length: 64 }, () => Math.floor(random() * 16).toString(16)).join("");
  return {
    number,
    alias: `r${number}`,
    admin: `registrar-${number}::1220${digest}`,
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
