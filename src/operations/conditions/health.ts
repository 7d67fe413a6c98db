import type { Clock, Instant } from "../../clock.ts";
import type { DiscoveryReport } from "../../discovery/report.ts";
import type { Metrics } from "../../observe/metrics.ts";
import { parseDuration } from "../../units.ts";
import { sayCount } from "../../words/quantity.ts";
import type { ReloadReport } from "../config-report.ts";
import type { ReplicaWatch } from "../replicas.ts";
import type { ProcessStatus } from "../status.ts";
import { type Condition, type Facts, READ_GAUGES, type ReadGauge, type Severity } from "./condition.ts";
import { CONDITIONS, REMARKS } from "./conditions.ts";
import { RecentCounts } from "./recent-counts.ts";

/** Something that is so now, and that an operator should know. */
export interface Finding {
  /** The alert's name, where there is one: its section in the runbooks. */
  readonly id: string;
  /** A condition that would page does so once it has held as long as the alert wants; until then it warns. */
  readonly severity: Severity;
  readonly subject: Condition["subject"];
  /** The registry that it is about; null: none of them. */
  readonly upstream: string | null;
  /** A sentence. */
  readonly text: string;
  /** Since when this process has seen it (RFC 3339). */
  readonly since: string;
}

/** How this replica sees itself and its registries: `/status`, its command and the console say it alike. */
export interface Health {
  /** Null: nothing is wrong. */
  readonly severity: Severity | null;
  readonly sentence: string;
  /** The worst first, twenty at most. */
  readonly findings: readonly Finding[];
  /** How many there are besides. */
  readonly more: number;
}

/** Hundreds of registries may fail at once. */
const MOST_FINDINGS = 20;

interface Held {
  readonly finding: Omit<Finding, "severity" | "since">;
  readonly severity: Severity;
  /** How long it has to hold before it pages, in milliseconds. */
  readonly pagesAfter: number;
}

interface HealthSources {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Brings up to date what is only counted when it is read. */
  readonly refresh: () => void;
  readonly status: () => ProcessStatus;
  readonly discovery: () => DiscoveryReport;
  readonly lastReload: () => ReloadReport | undefined;
  readonly operatorFaults: () => ReadonlyMap<string, string>;
  readonly replicas: Pick<ReplicaWatch, "settled" | "lost">;
}

/** How the gateway is, looked at on request and every thirty seconds: since when something is so is known then. */
export class HealthReport {
  private readonly sources: HealthSources;
  private readonly recent: RecentCounts;
  /** Since when each finding holds. Bounded by what is found: what is over is forgotten at the next look. */
  private since = new Map<string, Instant>();

  constructor(sources: HealthSources) {
    this.sources = sources;
    this.recent = new RecentCounts(sources.metrics, sources.clock);
  }

  start(): void {
    this.recent.start(() => void this.look());
  }

  stop(): void {
    this.recent.stop();
  }

  async look(): Promise<Health> {
    const facts = await this.gather();
    const findings = this.findingsOf(facts).toSorted((one, other) => RANK[one.severity] - RANK[other.severity]);
    const worst = findings.find(({ severity }) => severity !== "info");
    return {
      severity: worst?.severity ?? null,
      sentence: sentenceOf(facts, findings),
      findings: findings.slice(0, MOST_FINDINGS),
      more: Math.max(0, findings.length - MOST_FINDINGS),
    };
  }

  private async gather(): Promise<Facts> {
    const { clock, metrics, refresh, status, discovery, lastReload, operatorFaults, replicas } = this.sources;
    const replicaDifferences = replicas.settled();
    metrics.replicasDiffering.set(replicaDifferences.length);
    refresh();
    const gauges = await gaugesAbove0(metrics);
    await this.recent.refresh();
    return {
      ...status(),
      lastReload: lastReload(),
      discovery: discovery(),
      operatorFaults: operatorFaults(),
      replicaDifferences,
      replicasLost: replicas.lost(),
      gauges,
      recent: this.recent,
      wallNow: clock.wallNow(),
    };
  }

  /** What was so at the last look goes on, what was not begins now. */
  private findingsOf(facts: Facts): readonly Finding[] {
    const now = this.sources.clock.now();
    const before = this.since;
    this.since = new Map();
    return held(facts).map(({ finding, severity, pagesAfter }) => {
      const key = `${finding.id} ${finding.upstream}`;
      const since = before.get(key) ?? this.since.get(key) ?? now;
      this.since.set(key, since);
      const isEarly = severity === "page" && now - since < pagesAfter;
      const { id, subject, upstream, text } = finding;
      const seenAt = new Date(facts.wallNow + since - now).toISOString();
      return { id, severity: isEarly ? "warning" : severity, subject, upstream, text, since: seenAt };
    });
  }
}

async function gaugesAbove0(metrics: Metrics): Promise<Facts["gauges"]> {
  const read = async (key: ReadGauge) => {
    const { values } = await metrics[key].get();
    return [key, values.filter(({ value }) => value > 0).map(({ labels }) => labels)] as const;
  };
  return Object.fromEntries(await Promise.all(READ_GAUGES.map(read))) as unknown as Facts["gauges"];
}

const RANK: Readonly<Record<Severity, number>> = { page: 0, warning: 1, info: 2 };

function held(facts: Facts): readonly Held[] {
  const conditions = CONDITIONS.map(({ alert: id, severity, subject, find, for: pause }) => {
    return { id, severity, subject, find, pagesAfter: parseDuration(pause) ?? 0 };
  });
  const remarks = REMARKS.map(({ id, severity, subject, find }) => ({ id, severity, subject, find, pagesAfter: 0 }));
  return [...conditions, ...remarks].flatMap(({ id, severity, subject, find, pagesAfter }) => {
    const seen = find === "outside" ? [] : find(facts);
    return seen.map(({ text, upstream = null }) => ({
      finding: { id, subject, upstream, text: sentence(text) },
      severity,
      pagesAfter,
    }));
  });
}

/** Names of registries stay as they are written. */
function sentence(text: string): string {
  const isWord = /^(the|every|there|an?|discovery\.|\d+) /.test(text);
  return `${isWord ? text.charAt(0).toUpperCase() + text.slice(1) : text}${/[.!?]$/.test(text) ? "" : "."}`;
}

function sentenceOf({ upstreams }: Facts, findings: readonly Finding[]): string {
  if (upstreams.length === 0) return "No registry is configured.";
  const worst = findings.filter(({ severity }) => severity !== "info");
  const unwell = new Set(findings.flatMap(({ upstream }) => upstream ?? []));
  const well = upstreams.filter(({ name }) => !unwell.has(name)).length;
  const all = sayAllWell(well, upstreams.length);
  if (worst.length === 0) return well === upstreams.length ? `${all}.` : `${all}; nothing needs you.`;
  const rest = worst.length === 1 ? "" : ` And ${sayCount(worst.length - 1, "more thing")} to look at.`;
  const lead = well === upstreams.length ? `${all}, but: ` : `${all}. `;
  return `${lead}${worst[0]!.text}${rest}`;
}

function sayAllWell(well: number, all: number): string {
  if (all === 1) return well === 1 ? "The registry is well" : "The registry is not well";
  return well === all ? `All ${all} registries are well` : `${well} of ${all} registries are well`;
}
