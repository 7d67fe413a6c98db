import type { Duration } from "../clock.ts";
import type { CertificateEnd } from "../observe/certificates.ts";
import type { GatewayState } from "../observe/state.ts";
import type { NodeStatus, UpstreamStatus } from "../upstream/types.ts";
import type { Health, HealthLevel, HealthLine } from "./types.ts";
import { count, dateOf, timeOf, timeOfDay } from "./words.ts";

/** A certificate that ends so soon is worth a word. */
const CERTIFICATE_ENDS_SOON: Duration = 14 * 86_400_000;

/** Other replicas find a Redis that is back within so long, or they are lost. */
const ALL_ARE_BACK: Duration = 15_000;

/** A registry that was never asked is no news for so long after the start or a reload. */
const FIRST_ANSWER: Duration = 15_000;

const SEVERITY: Readonly<Record<HealthLevel, number>> = { page: 2, warning: 1, well: 0 };

/** A line, but for whom it is about. */
type Finding = Omit<HealthLine, "subject" | "name">;

/** Health of the gateway, from its state alone. */
export function healthOf(state: GatewayState): Health {
  const { now, upstreams, redis, reload, certificates } = state;
  const lines = [
    ...upstreams.map((upstream) => registryLine(upstream, now)),
    ...redisLine(redis, now),
    ...replicaLine(redis, now),
    ...reloadLine(reload, now),
    ...certificates.flatMap((each) => certificateLine(each, now)),
  ].toSorted((one, other) => SEVERITY[other.level] - SEVERITY[one.level]);
  return { level: lines[0]?.level ?? "well", sentence: sentenceOf(lines, upstreams.length), lines };
}

function sentenceOf(lines: readonly HealthLine[], registries: number): string {
  const [worst, ...others] = lines.filter(({ level }) => level !== "well");
  if (worst === undefined) return `All is well: ${count(registries, "registry", "registries")}.`;
  if (others.length === 0) return `${worst.text}.`;
  const names = others.slice(0, 3).map(({ name }) => name);
  const more = others.length > names.length ? `, and ${others.length - names.length} more` : "";
  return `${worst.text}. Not well either: ${names.join(", ")}${more}.`;
}

/** Finds the cause among all that is true of a registry: the first that applies. */
function registryLine(upstream: UpstreamStatus, now: number): HealthLine {
  const finding =
    disabled(upstream, now) ??
    cacheOnly(upstream) ??
    down(upstream, now) ??
    credentialUnusable(upstream) ??
    unproved(upstream, now) ??
    allPaused(upstream, now) ??
    someOut(upstream, now) ??
    somePaused(upstream, now) ??
    limited(upstream) ??
    well(upstream);
  return { subject: "registry", name: upstream.name, ...finding };
}

function disabled({ name, state, cause, since }: UpstreamStatus, now: number): Finding | undefined {
  if (state !== "disabled") return undefined;
  return {
    level: "page",
    text: `${name} is disabled since ${timeOf(since, now)}: ${reason(cause, "its admin is contested")}`,
    effect: "Its requests are answered 503.",
    since,
    runbook: "registrygatewayadminmismatch",
  };
}

function cacheOnly({ name, mode }: UpstreamStatus): Finding | undefined {
  if (mode !== "cache-only") return undefined;
  return {
    level: "well",
    text: `${name} is cache-only, as configured`,
    effect: "What is stored is served however stale; all else is answered 503.",
  };
}

function down({ name, state, cause, since, nodes }: UpstreamStatus, now: number): Finding | undefined {
  if (state !== "down") return undefined;
  const isWrong = nodes.some((node) => node.state === "wrong");
  return {
    level: "page",
    text: `${name} is down since ${timeOf(since, now)}: ${causeOf(nodes) ?? reason(cause, "no node is up")}`,
    effect: "Cached metadata is served while staleIfError lasts; all else is answered 503.",
    since,
    runbook: isWrong ? "registrygatewayadminmismatch" : "registrygatewayallnodesdown",
  };
}

function unproved({ name, state, cause, since }: UpstreamStatus, now: number): Finding | undefined {
  if (state !== "unproved") return undefined;
  if (now - since < FIRST_ANSWER) return { level: "well", text: `${name} is being asked for the first time`, since };
  return {
    level: "warning",
    text: `${name} has not named its admin since ${timeOf(since, now)}: ${reason(cause, "no node has answered")}`,
    effect: "Requests wait for its first answer.",
    since,
    runbook: "registrygatewayallnodesdown",
  };
}

function credentialUnusable({ name, credential }: UpstreamStatus): Finding | undefined {
  if (credential === undefined) return undefined;
  return {
    level: "warning",
    text: `${name}: the gateway's credential is unusable: ${reason(credential, "it is refused")}`,
    effect: "Its requests are answered 502; cached metadata is served while staleIfError lasts.",
    runbook: "registrygatewaycredentialunusable",
  };
}

/** Every node that could be asked wants a pause, or wanted one lately. */
function allPaused(upstream: UpstreamStatus, now: number): Finding | undefined {
  const paused = pausedOf(upstream);
  if (paused.length === 0 || paused.length < upstream.nodes.filter(isAskable).length) return undefined;
  return {
    level: "warning",
    text: pauseText(upstream.name, paused, now),
    effect: "Its calls wait, or are answered 429; cached metadata is served.",
    runbook: "registrygatewayregistrypauses",
  };
}

function somePaused(upstream: UpstreamStatus, now: number): Finding | undefined {
  const paused = pausedOf(upstream);
  if (paused.length === 0) return undefined;
  return { level: "well", text: pauseText(upstream.name, paused, now), runbook: "registrygatewayregistrypauses" };
}

function pausedOf({ nodes }: UpstreamStatus): readonly NodeStatus[] {
  return nodes.filter((node) => node.pausedUntil !== undefined && isAskable(node));
}

function isAskable({ state }: NodeStatus): boolean {
  return state === "up" || state === "unproved";
}

function pauseText(name: string, nodes: readonly NodeStatus[], now: number): string {
  const ends = nodes.map(({ pausedUntil = 0 }) => pausedUntil);
  const running = ends.filter((end) => end > now);
  // The first node whose pause ends is asked again.
  const [verb, until] = running.length > 0 ? ["paused", Math.min(...running)] : ["was paused", Math.max(...ends)];
  const number = running.length > 0 ? running.length : ends.length;
  return `${name} answered 429, ${verb} until ${timeOfDay(until)} (${count(number, "node", "nodes")})`;
}

function someOut({ name, nodes }: UpstreamStatus, now: number): Finding | undefined {
  const lost = nodes.filter(({ state }) => state === "out" || state === "wrong");
  if (lost.length === 0) return undefined;
  const since = Math.min(...lost.map((node) => node.since));
  const isWrong = lost.some(({ state }) => state === "wrong");
  const [first] = lost;
  const what = isWrong ? "not used" : "out";
  const where = lost.length === 1 ? `node ${first!.url}` : `${lost.length} of ${nodes.length} nodes`;
  return {
    level: "warning",
    text: `${name}: ${where} ${what} since ${timeOf(since, now)}: ${causesOf(lost).slice(0, 2).join(", or ") || "its info failed"}`,
    effect: "The other nodes take its calls.",
    since,
    runbook: isWrong ? "registrygatewaynodeadminmismatch" : "registrygatewaynodedown",
  };
}

function limited({ name, limit }: UpstreamStatus): Finding | undefined {
  if (limit === undefined || limit.waiting === 0) return undefined;
  const waiting = limit.waiting === 1 ? "1 call waits" : `${limit.waiting} calls wait`;
  const rates = [limit.requests, ...(limit.burst === undefined ? [] : [limit.burst])].join(" and ");
  return { level: "well", text: `${name}: your limit: ${rates}, ${waiting}`, runbook: "registrygatewaylimitreached" };
}

function well({ name, nodes }: UpstreamStatus): Finding {
  const up = nodes.filter(({ state }) => state === "up").length;
  return { level: "well", text: `${name} is well: ${up} of ${count(nodes.length, "node", "nodes")} up` };
}

function redisLine({ redis, cause, since }: GatewayState["redis"], now: number): HealthLine[] {
  if (redis !== "away") return [];
  const began = since === undefined ? "" : ` since ${timeOf(since, now)}`;
  return [
    {
      subject: "redis",
      name: "Redis",
      level: "warning",
      text: `Redis is away${began}: ${reason(cause, "it does not answer")}`,
      effect: "Each replica fetches for itself and keeps to its part of the limits; a purge holds on one replica.",
      ...(since !== undefined && { since }),
      runbook: "registrygatewayredisaway",
    },
  ];
}

function replicaLine({ redis, since = 0, replicas, lost }: GatewayState["redis"], now: number): HealthLine[] {
  if (lost === undefined || redis !== "up" || now - since < ALL_ARE_BACK) return [];
  const all = lost.count + replicas;
  const [is, it, does] = lost.count === 1 ? ["is", "it", "does"] : ["are", "they", "do"];
  return [
    {
      subject: "replica",
      name: "replicas",
      level: "warning",
      text: `${lost.count} of ${all} replicas ${is} gone since ${timeOf(lost.since, now)}: ${it} ended without a farewell, or ${does} not reach Redis`,
      effect: "The others answer its clients. It is forgotten when another comes in its place, or after an hour.",
      since: lost.since,
      runbook: "registrygatewayreplicagone",
    },
  ];
}

function reloadLine({ takenAt, refused }: GatewayState["reload"], now: number): HealthLine[] {
  if (refused === undefined) return [];
  return [
    {
      subject: "reload",
      name: "the configuration",
      level: "warning",
      text: `the configuration was refused at ${timeOf(refused.at, now)}: ${reason(refused.problem, "it is bad")}`,
      effect: `The one of ${timeOf(takenAt, now)} runs on; at its next start a replica would not come up.`,
      since: refused.at,
      runbook: "registrygatewayreloadfailed",
    },
  ];
}

function certificateLine({ role, peer, endsAt }: CertificateEnd, now: number): HealthLine[] {
  if (endsAt - now > CERTIFICATE_ENDS_SOON) return [];
  const name = role === "listener" ? "the certificate of listen.tls.certFile" : `the ${role} certificate for ${peer}`;
  const hasEnded = endsAt <= now;
  const effect =
    role === "listener"
      ? "Where a good one was in use before it, that one stays in use; else clients refuse it."
      : "No connection is made with it.";
  return [
    {
      subject: "certificate",
      name,
      level: "warning",
      text: `${name} ${hasEnded ? "ended" : "ends"} on ${dateOf(endsAt)}`,
      ...(hasEnded && { effect, since: endsAt }),
      runbook: "registrygatewaycertificateends",
    },
  ];
}

/** Says what all nodes of a registry did, each cause once: `its only node refused the connection`. */
function causeOf(nodes: readonly NodeStatus[]): string | undefined {
  const causes = causesOf(nodes);
  if (causes.length === 0) return undefined;
  if (causes.length > 1) return `its nodes ${causes.slice(0, 2).join(", or ")}`;
  if (nodes.length === 1) return `its only node ${causes[0]}`;
  return nodes.length === 2 ? `both nodes ${causes[0]}` : `all ${nodes.length} nodes ${causes[0]}`;
}

function causesOf(nodes: readonly NodeStatus[]): string[] {
  return [...new Set(nodes.flatMap(({ cause }) => (cause === undefined ? [] : [reason(cause, "")])))];
}

/** A sentence of another room as the end of one of ours. */
function reason(text: string | undefined, otherwise: string): string {
  return text === undefined ? otherwise : text.replace(/\.$/, "");
}
