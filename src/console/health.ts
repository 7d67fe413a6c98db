import type { StatusAnswer } from "../operations/answers.ts";
import { sayCount } from "../words/quantity.ts";
import { sayDate } from "./format.ts";

/** How bad something is; each has its colour, its sign and its word. */
export type Tone = "good" | "warn" | "bad" | "off";

type Upstream = StatusAnswer["upstreams"][number];

/** A sentence for whoever looks at 3 a.m., and what it rests on, the worst first. */
export interface Health {
  readonly tone: Tone;
  readonly sentence: string;
  readonly findings: readonly Finding[];
}

export interface Finding {
  readonly tone: Tone;
  readonly text: string;
  /** The registry that it is about. */
  readonly upstream?: string;
}

const UPSTREAM_TONES: Readonly<Record<Upstream["state"], Tone>> = {
  up: "good",
  unproved: "warn",
  degraded: "warn",
  failing: "bad",
  "wrong-admin": "bad",
  disabled: "off",
};

const NODE_TONES: Readonly<Record<Upstream["nodes"][number]["state"], Tone>> = {
  up: "good",
  unproved: "warn",
  ejected: "bad",
  "wrong-admin": "bad",
};

const SEVERITY: readonly Tone[] = ["bad", "warn", "off", "good"];

/** A certificate that ends sooner is told. */
const SOON = 14 * 24 * 60 * 60 * 1_000;

/** A gateway of another version may have states that this page does not know. */
export function upstreamTone(state: string): Tone {
  return (UPSTREAM_TONES as Readonly<Record<string, Tone>>)[state] ?? "warn";
}

export function nodeTone(state: string): Tone {
  return (NODE_TONES as Readonly<Record<string, Tone>>)[state] ?? "warn";
}

/** For sorting: the worst first. */
export function severity(tone: Tone): number {
  return SEVERITY.indexOf(tone);
}

export function judgeHealth(status: StatusAnswer, now: number): Health {
  const findings = [...upstreamFindings(status), ...ownFindings(status), ...certificateFindings(status, now)].sort(
    (one, other) => severity(one.tone) - severity(other.tone),
  );
  const tone = findings[0]?.tone ?? "good";
  return { tone: tone === "off" ? "good" : tone, sentence: sentenceOf(status, findings), findings };
}

function sentenceOf({ upstreams }: StatusAnswer, findings: readonly Finding[]): string {
  if (upstreams.length === 0) return "No registry is configured.";
  const bad = findings.filter(({ tone }) => tone === "bad");
  const warned = findings.filter(({ tone }) => tone === "warn");
  const well = upstreams.filter((upstream) => upstream.state === "up" && !hasFailed(upstream)).length;
  const all = upstreams.length === 1 ? "The registry is well" : `All ${upstreams.length} registries are well`;
  if (bad.length === 0 && warned.length === 0)
    return well === upstreams.length ? `${all}.` : `${wellOf(well, upstreams.length)}; nothing needs you.`;
  const worst = [...bad, ...warned];
  const rest = worst.length === 1 ? "" : ` And ${sayCount(worst.length - 1, "more thing")} to look at.`;
  const lead = bad.length === 0 && well === upstreams.length ? `${all}, but: ` : `${wellOf(well, upstreams.length)}. `;
  return `${lead}${worst[0]!.text}${rest}`;
}

function wellOf(well: number, all: number): string {
  return all === 1
    ? well === 1
      ? "The registry is well"
      : "The registry is not well"
    : `${well} of ${all} registries are well`;
}

function upstreamFindings({ upstreams }: StatusAnswer): Finding[] {
  return upstreams.flatMap((upstream): Finding[] => {
    const { name, state, mode, breaker, lastError } = upstream;
    const found: Finding[] = [];
    const why = lastError === null ? "" : `: ${lastError}`;
    if (state !== "up") {
      const tone = state === "disabled" && !upstream.isContested ? "off" : upstreamTone(state);
      found.push({ tone, upstream: name, text: `${name} ${saidOf(upstream)}${why}.` });
    } else if (breaker !== "closed") {
      found.push({ tone: "bad", upstream: name, text: `${name}: its circuit breaker is ${breaker}${why}.` });
    } else if (hasFailed(upstream)) {
      found.push({ tone: "warn", upstream: name, text: `Every node of ${name} failed when it was asked last${why}.` });
    }
    if (mode === "cache-only") {
      found.push({ tone: "warn", upstream: name, text: `${name} is in cache-only mode: nothing is asked of it.` });
    }
    return found;
  });
}

/** The last node is never ejected, and a breaker opens after ten failures: at night that takes long. */
function hasFailed({ nodes }: Upstream): boolean {
  return nodes.length > 0 && nodes.every(({ lastError }) => lastError !== null);
}

function saidOf({ state, nodes, isContested }: Upstream): string {
  const up = nodes.filter((node) => node.state === "up").length;
  switch (state) {
    case "degraded":
      return `has ${up} of ${sayCount(nodes.length, "node")} up`;
    case "failing":
      return "fails, its circuit breaker is open";
    case "wrong-admin":
      return "serves another registry than configured";
    case "unproved":
      return "has not proved its admin yet";
    case "disabled":
      return isContested ? "is not used, for another upstream claims its admin" : "is disabled";
    default:
      return `is ${state}`;
  }
}

function ownFindings({ redis, workers, cache }: StatusAnswer): Finding[] {
  const found: Finding[] = [];
  if (redis.configured && redis.state === "away") {
    const why = redis.lastError === null ? "" : `: ${redis.lastError}`;
    found.push({ tone: "bad", text: `Redis is away, this replica goes on by itself${why}.` });
  } else if (redis.configured && redis.pendingPurges > 0) {
    found.push({ tone: "warn", text: `${sayCount(redis.pendingPurges, "purge")} not in Redis yet.` });
  }
  const starting = workers?.filter(({ state }) => state !== "listening") ?? [];
  if (starting.length > 0) {
    found.push({
      tone: "warn",
      text: `${starting.length} of ${sayCount(workers!.length, "worker")} not listening yet.`,
    });
  }
  if (cache.memory.maxBytes === 0)
    found.push({ tone: "warn", text: "The memory cache has no room: cache.memory.maxBytes is 0." });
  return found;
}

function certificateFindings({ certificates, upstreams }: StatusAnswer, now: number): Finding[] {
  const own = certificates.map((certificate) => ({ ...certificate, whose: "The gateway's", upstream: undefined }));
  const theirs = upstreams.flatMap(({ name, certificates: list }) =>
    list.map((certificate) => ({ ...certificate, whose: `${name}'s`, upstream: name })),
  );
  return [...own, ...theirs].flatMap(({ role, expiresAt, whose, upstream }): Finding[] => {
    const left = Date.parse(expiresAt) - now;
    if (!(left < SOON)) return [];
    const what = `${whose} certificate (${role.replaceAll("_", " ")})`;
    const text = left < 0 ? `${what} ended on ${sayDate(expiresAt)}.` : `${what} ends on ${sayDate(expiresAt)}.`;
    return [{ tone: left < 0 ? "bad" : "warn", text, ...(upstream !== undefined && { upstream }) }];
  });
}
