import type { ProcessStatus } from "../status.ts";
import type { ReloadReport } from "../config-report.ts";
import type { DiscoveryReport } from "../../discovery/report.ts";
import type { UpstreamStatus } from "../../upstream/status.ts";
import type { RecentCounts } from "./recent-counts.ts";

/** `page`: an operator has to look now · `warning`: within a day · `info`: worth knowing. */
export type Severity = "page" | "warning" | "info";

/** What this process knows of itself; what was counted is of the last minutes. */
export interface Facts extends ProcessStatus {
  readonly lastReload: ReloadReport | undefined;
  readonly discovery: DiscoveryReport;
  /** Operators whose token files are no good, with what is wrong. */
  readonly operatorFaults: ReadonlyMap<string, string>;
  /** In what replicas differ, and have for a while: a sentence each. */
  readonly replicaDifferences: readonly string[];
  /** Names of replicas that ended without saying so. */
  readonly replicasLost: readonly string[];
  /** Of gauges that are above 0: their labels. */
  readonly gauges: Readonly<Record<ReadGauge, readonly Readonly<Record<string, string>>[]>>;
  readonly recent: Pick<RecentCounts, "risen" | "risenOfAll" | "period">;
  /** Milliseconds since the Unix epoch. */
  readonly wallNow: number;
}

/** Gauges that say something that the status does not. */
export const READ_GAUGES = ["clientKeysUnusable", "credentialUnusable", "listenerTlsUnusable", "shedding"] as const;
export type ReadGauge = (typeof READ_GAUGES)[number];

/** What a condition found: the rest of a line, without a full stop. */
export interface Seen {
  /** The registry that it is about. */
  readonly upstream?: string;
  readonly text: string;
}

/** What can be wrong and is worth an alert: alerts, `status` and the console's sentence come from it. */
export interface Condition<Name extends string = string> {
  /** The alert's name, which `/status` gives, too. */
  readonly alert: Name;
  readonly severity: Exclude<Severity, "info">;
  readonly subject: "gateway" | "registry" | "node" | "replica";
  /** Other alerts may only say what follows from it: a page with a cause keeps those back. */
  readonly isCause: boolean;
  /** How long it has to hold before the alert fires. */
  readonly for: string;
  /** Finds it in this process at once; `outside`: it takes hours, or a look at all replicas, which Prometheus has. */
  readonly find: ((facts: Facts) => readonly Seen[]) | "outside";
}

/** What `status` and the console say besides, and nobody is called for. */
export interface Remark {
  readonly id: string;
  readonly severity: Exclude<Severity, "page">;
  readonly subject: Condition["subject"];
  readonly find: (facts: Facts) => readonly Seen[];
}

/** What a look found: the rest of a line, without a full stop, or several. */
type Said = string | readonly string[] | undefined;

function textsOf(said: Said): readonly string[] {
  return said === undefined ? [] : [said].flat();
}

/** Looks at the gateway as a whole. */
export function ofAll(say: (facts: Facts) => Said): (facts: Facts) => readonly Seen[] {
  return (facts) => textsOf(say(facts)).map((text) => ({ text }));
}

/** Looks at each registry by itself. */
export function ofEach(say: (upstream: UpstreamStatus, facts: Facts) => Said): (facts: Facts) => readonly Seen[] {
  return (facts) =>
    facts.upstreams.flatMap((upstream) =>
      textsOf(say(upstream, facts)).map((text) => ({ upstream: upstream.name, text })),
    );
}

/** Why, where it is known. */
export function because(why: string | null | undefined): string {
  return why === undefined || why === null || why === "" ? "" : `: ${why}`;
}

/** Share of requests that may fail over a month. */
export const ERROR_BUDGET = 0.001;

/**
 * From where on something is worth an alert: the process and Prometheus find it alike. A share is exceeded, of so many at
 * least; what is slow takes longer than its seconds, which are a bound of the histogram's buckets.
 */
export const BOUNDS = {
  /** A month's budget is gone in two days. */
  requestsFail: { share: 14.4 * ERROR_BUDGET },
  hitsSlow: { seconds: 0.1, share: 0.01, least: 100 },
  staleAnswers: { share: 0.2 },
  /** Of however few, and of each kind. */
  callsFail: { share: 0.5, least: 3 },
  callsSlow: { seconds: 2.5, share: 0.1, least: 10 },
  /** A part of the calls. */
  registryErrors: { share: 0.05, least: 10 },
  rateLimitUsed: { share: 0.9 },
  redisRefuses: { share: 0.02, least: 10 },
  sealsBroken: { count: 3 },
  eventLoopBusy: { share: 0.9 },
  /** NTP keeps clocks within some. */
  clocksApart: { milliseconds: 2_000 },
  certificateEnds: { days: 3 },
  certificateEndsSoon: { days: 14 },
} as const;
