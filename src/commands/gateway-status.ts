import type { ActAnswer, StatusAnswer } from "../operations/answers.ts";
import { sayDuration, saySize } from "../words/quantity.ts";
import { sayReached } from "../words/reached.ts";
import { tableLines, wrap } from "./terminal.ts";

type Upstream = StatusAnswer["upstreams"][number];
type Node = Upstream["nodes"][number];

/** How the gateway is, in the sentence that the console has, what it rests on, and what is in force. */
export function statusLines(status: StatusAnswer): string[] {
  const { inForce, upstreams } = status;
  return [
    ...healthLines(status),
    "",
    ...partLines(status),
    "",
    ...upstreamLines(upstreams),
    ...(inForce.length === 0
      ? []
      : ["", "In force, by operators:", ...inForce.map(sayAction).flatMap((line) => wrap(line))]),
  ];
}

function healthLines({ version, uptimeSeconds, replica: { name, revision }, health }: StatusAnswer): string[] {
  const build = revision === "-" ? "" : ` (${revision})`;
  const head = `registry-gateway ${version}${build} on ${name} has run for ${sayDuration(uptimeSeconds * 1000)}: ${health.sentence}`;
  const { findings } = health;
  const lines =
    findings.length < 2 ? [] : findings.map((each) => `${each.severity}: ${each.text} (seen since ${each.since})`);
  return [head, ...lines].flatMap((line) => wrap(line));
}

function partLines({ cache: { memory }, redis }: StatusAnswer): string[] {
  const share = memory.maxBytes === 0 ? 0 : Math.round((memory.bytes / memory.maxBytes) * 100);
  const stored = `${memory.entries} entries, ${saySize(memory.bytes)} of ${saySize(memory.maxBytes)} (${share} %)`;
  return [`memory   ${stored}`, `redis    ${redis.configured ? sayRedis(redis) : "not configured"}`];
}

function sayRedis(redis: Extract<StatusAnswer["redis"], { readonly configured: true }>): string {
  const { state, replicas, lastError, pendingPurges } = redis;
  return [
    state === "away" ? "away: each replica goes on by itself" : state,
    ...(state === "up" ? [`${replicas ?? "?"} replicas`] : []),
    ...(lastError === null ? [] : [lastError]),
    ...(pendingPurges === 0 ? [] : [`${pendingPurges} purges wait to be written`]),
  ].join(", ");
}

/** One line for each upstream, and below why those that are not well are not. */
export function upstreamLines(upstreams: readonly Upstream[]): string[] {
  const table = tableLines(upstreams, [
    { head: "UPSTREAM", shortened: "end", cell: ({ name }) => name },
    { head: "STATE", cell: ({ state }) => state },
    { head: "MODE", cell: ({ mode }) => mode },
    { head: "NODES UP", cell: ({ nodes }) => `${nodes.filter(isWell).length} of ${nodes.length}` },
    { head: "BREAKER", cell: ({ breaker }) => breaker },
    { head: "RUNNING", isNumber: true, cell: ({ running }) => running },
    { head: "QUEUED", isNumber: true, cell: ({ queued }) => queued },
    { head: "CALLS LEFT", isNumber: true, cell: ({ budgetLeft }) => budgetLeft },
    { head: "ADMIN", shortened: "middle", cell: ({ admin }) => admin ?? "not known yet" },
  ]);
  return [...table, ...reasons(upstreams)];
}

/** The last node is never ejected: what failed last is up, and is not well. */
function isWell({ state, lastError }: Node): boolean {
  return state === "up" && lastError === null;
}

/** One line for each node, and below why those that are not well are not. */
export function nodeLines(upstreams: readonly Upstream[]): string[] {
  const all = upstreams.flatMap(({ name, nodes }) => nodes.map((node, place) => ({ ...node, name, place })));
  const table = tableLines(all, [
    { head: "UPSTREAM", shortened: "end", cell: ({ name }) => name },
    { head: "NODE", isNumber: true, cell: ({ place }) => place },
    { head: "STATE", cell: stateOf },
    { head: "PROTOCOL", cell: ({ protocol }) => protocol },
    { head: "LATENCY", isNumber: true, cell: ({ latencyMs }) => (latencyMs === null ? null : sayDuration(latencyMs)) },
    { head: "IN FLIGHT", isNumber: true, cell: ({ inFlight }) => inFlight },
    { head: "EJECTED", isNumber: true, cell: ({ ejections }) => ejections },
    { head: "WEIGHT", isNumber: true, cell: ({ weight }) => weight },
    { head: "URL", shortened: "middle", cell: ({ url }) => url },
  ]);
  return [...table, ...reasons(upstreams)];
}

function stateOf({ state, cordoned, outOfStep }: Node): string {
  const words = [state, cordoned && "cordoned", outOfStep > 0 && `${outOfStep}× out of step`];
  return words.filter((word) => word !== false).join(", ");
}

function reasons(upstreams: readonly Upstream[]): string[] {
  const lines = upstreams.flatMap(({ name, state, lastError, lastDifference, nodes }) => {
    const ofNodes = nodes.flatMap(({ lastError: error }, i) => (error === null ? [] : [[`${name}, node ${i}`, error]]));
    const isSaid = lastError === null || state === "up" || ofNodes.some(([, error]) => error === lastError);
    const differences = lastDifference === null ? [] : [[name, sayDifference(lastDifference)]];
    return [...(isSaid ? [] : [[name, lastError]]), ...ofNodes, ...differences];
  });
  return lines.length === 0 ? [] : ["", ...lines.flatMap(([who, why]) => wrap(`${who}: ${why}`))];
}

/** Nodes by what they said, and in which parts of the answer that differed. */
function sayDifference({ operation, nodes, parts, at }: NonNullable<Upstream["lastDifference"]>): string {
  const groups = nodes.map((group) => `${group.length === 1 ? "node" : "nodes"} ${group.join(", ")}`).join(" against ");
  return `${groups} in ${operation} at ${at}: ${parts.join(", ")}`;
}

/** What became of a `POST` to `/nodes` or `/upstreams`. */
export function doneLines({ action, replicas }: ActAnswer): string[] {
  return wrap(`${sayAction(action)}; ${sayReached(replicas)}`);
}

type Action = Pick<
  StatusAnswer["inForce"][number],
  "upstream" | "node" | "url" | "state" | "weight" | "mode" | "reason" | "until"
>;

function sayAction({ upstream, node, url, state, weight, mode, reason, until }: Action): string {
  const what = [state, mode, weight === null ? null : `weight ${weight}`].filter((part) => part !== null);
  const who = node === null ? upstream : `${upstream}, node ${node} (${url})`;
  const end = until === null ? "" : `, until ${until}`;
  return `${who}: ${what.join(", ")}${end}${reason === null ? "" : ` (${reason})`}`;
}
