import type { Clock, Instant } from "../../clock.ts";
import { parseDuration } from "../../units.ts";
import { sayCount } from "../../words/quantity.ts";
import type { Condition, Facts, Severity } from "./condition.ts";
import { CONDITIONS, REMARKS } from "./conditions.ts";

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

/** What is wrong, and since when: what was so at the last look goes on, what was not begins now. */
export class HealthWatch {
  private readonly clock: Clock;
  /** Bounded by what is found: what is over is forgotten at the next look. */
  private since = new Map<string, Instant>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  look(facts: Facts): Health {
    const now = this.clock.now();
    const before = this.since;
    this.since = new Map();
    const findings = held(facts)
      .map(({ finding, severity, pagesAfter }): Finding => {
        const key = `${finding.id} ${finding.upstream}`;
        const since = before.get(key) ?? this.since.get(key) ?? now;
        this.since.set(key, since);
        const isEarly = severity === "page" && now - since < pagesAfter;
        const { id, subject, upstream, text } = finding;
        const seenAt = new Date(facts.wallNow + since - now).toISOString();
        return { id, severity: isEarly ? "warning" : severity, subject, upstream, text, since: seenAt };
      })
      .toSorted((one, other) => RANK[one.severity] - RANK[other.severity]);
    const worst = findings.find(({ severity }) => severity !== "info");
    return {
      severity: worst?.severity ?? null,
      sentence: sentenceOf(facts, findings),
      findings: findings.slice(0, MOST_FINDINGS),
      more: Math.max(0, findings.length - MOST_FINDINGS),
    };
  }
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
