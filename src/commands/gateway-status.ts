import { type Static, type TSchema, Type } from "typebox";
import { Compile } from "typebox/compile";
import { sayCount, sayDuration } from "../words/quantity.ts";
import { type Reached, sayReached } from "../words/reached.ts";
import { type Column, formatTable, terminalWidth, wrap } from "./table.ts";

const orNull = <Schema extends TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]));

const Node = Type.Object({
  url: Type.String(),
  state: Type.String(),
  lastError: orNull(Type.String()),
  latencyMs: orNull(Type.Number()),
  inFlight: Type.Number(),
  ejections: Type.Number(),
  cordoned: Type.Optional(Type.Boolean()),
  outOfStep: Type.Optional(Type.Number()),
  protocol: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  weight: orNull(Type.Number()),
});

const Upstream = Type.Object({
  name: Type.String(),
  admin: orNull(Type.String()),
  state: Type.String(),
  mode: Type.Optional(Type.String()),
  lastError: orNull(Type.String()),
  breaker: Type.String(),
  budgetLeft: orNull(Type.Number()),
  running: Type.Number(),
  queued: Type.Number(),
  retriesLeft: Type.Number(),
  nodes: Type.Array(Node),
});

/** What an operator did to a node, or to an upstream as a whole. */
const Action = Type.Object({
  upstream: Type.String(),
  node: orNull(Type.Number()),
  state: orNull(Type.String()),
  weight: orNull(Type.Number()),
  mode: orNull(Type.String()),
  reason: orNull(Type.String()),
  until: orNull(Type.String()),
});

/** What these commands read of `/status`: an older or newer gateway may say less or more. */
const GatewayStatus = Type.Object({
  version: Type.String(),
  uptimeSeconds: Type.Number(),
  /** Absent: an older gateway. */
  replica: Type.Optional(Type.Object({ name: Type.String(), revision: Type.String() })),
  cache: Type.Object({
    memory: Type.Object({ entries: Type.Number(), bytes: Type.Number(), maxBytes: Type.Number() }),
  }),
  redis: Type.Object({
    configured: Type.Boolean(),
    state: Type.Optional(Type.String()),
    lastError: orNull(Type.String()),
    replicas: orNull(Type.Number()),
    pendingPurges: orNull(Type.Number()),
  }),
  /** Absent: an older gateway. */
  health: Type.Optional(
    Type.Object({
      sentence: Type.String(),
      findings: Type.Array(Type.Object({ severity: Type.String(), text: Type.String(), since: Type.String() })),
    }),
  ),
  inForce: Type.Optional(Type.Array(Action)),
  upstreams: Type.Array(Upstream),
});

export type GatewayStatus = Static<typeof GatewayStatus>;
type UpstreamStatus = Static<typeof Upstream>;

const statusCheck = Compile(GatewayStatus);
const Replica = Type.Object({ name: Type.String(), version: Type.String(), revision: Type.String() });

/** Absent: an older gateway. */
export const Replicas = Type.Optional(
  Type.Object({ took: Type.Array(Replica), missing: Type.Array(Replica), of: Type.Number() }),
);

const actionCheck = Compile(Type.Object({ action: Action, scope: Type.String(), replicas: Replicas }));

/** Undefined: it is of another form. */
export function readStatus(answer: unknown): GatewayStatus | undefined {
  return statusCheck.Check(answer) ? answer : undefined;
}

const UPSTREAM_COLUMNS: readonly Column[] = [
  { head: "UPSTREAM", shortened: "end" },
  { head: "STATE" },
  { head: "MODE" },
  { head: "NODES UP" },
  { head: "BREAKER" },
  { head: "RUNNING", isNumber: true },
  { head: "QUEUED", isNumber: true },
  { head: "CALLS LEFT", isNumber: true },
  { head: "ADMIN", shortened: "middle" },
];

/** One line for each upstream, and below why those that are not well are not. */
export function upstreamLines(upstreams: readonly UpstreamStatus[]): string[] {
  const rows = upstreams.map(({ name, state, mode, nodes, breaker, running, queued, budgetLeft, admin }) => [
    name,
    state,
    mode ?? "normal",
    `${nodes.filter(isWell).length} of ${nodes.length}`,
    breaker,
    String(running),
    String(queued),
    say(budgetLeft),
    admin ?? "not known yet",
  ]);
  return [...formatTable(UPSTREAM_COLUMNS, rows, terminalWidth()), ...reasons(upstreams)];
}

/** The last node is never ejected: what failed last is up, and is not well. */
function isWell({ state, lastError }: Static<typeof Node>): boolean {
  return state === "up" && !isText(lastError);
}

const NODE_COLUMNS: readonly Column[] = [
  { head: "UPSTREAM", shortened: "end" },
  { head: "NODE", isNumber: true },
  { head: "STATE" },
  { head: "PROTOCOL" },
  { head: "LATENCY", isNumber: true },
  { head: "IN FLIGHT", isNumber: true },
  { head: "EJECTED", isNumber: true },
  { head: "WEIGHT", isNumber: true },
  { head: "URL", shortened: "middle" },
];

/** One line for each node, and below why those that are not well are not. */
export function nodeLines(upstreams: readonly UpstreamStatus[]): string[] {
  const rows = upstreams.flatMap(({ name, nodes }) =>
    nodes.map((node, i) => [
      name,
      String(i),
      stateOf(node),
      node.protocol ?? "-",
      node.latencyMs === undefined || node.latencyMs === null ? "-" : sayDuration(node.latencyMs),
      String(node.inFlight),
      String(node.ejections),
      say(node.weight),
      node.url,
    ]),
  );
  return [...formatTable(NODE_COLUMNS, rows, terminalWidth()), ...reasons(upstreams)];
}

function stateOf({ state, cordoned, outOfStep = 0 }: Static<typeof Node>): string {
  const words = [state, cordoned === true && "cordoned", outOfStep > 0 && `${outOfStep}× out of step`];
  return words.filter((word) => word !== false).join(", ");
}

function say(value: number | null | undefined): string {
  return value === undefined || value === null ? "-" : String(value);
}

function reasons(upstreams: readonly UpstreamStatus[]): string[] {
  const lines = upstreams.flatMap(({ name, state, lastError, nodes }) => {
    const ofNodes = nodes.flatMap(({ lastError: error }, i) => (isText(error) ? [[`${name}, node ${i}`, error]] : []));
    const isSaid = state === "up" || ofNodes.some(([, error]) => error === lastError);
    return isSaid || !isText(lastError) ? ofNodes : [[name, lastError], ...ofNodes];
  });
  return lines.length === 0
    ? []
    : ["", ...lines.flatMap(([who, why]) => wrap(`${who}: ${why}`, terminalWidth(), "    "))];
}

function isText(text: string | null | undefined): text is string {
  return text !== undefined && text !== null && text !== "";
}

/** What operators did that has effect now. */
export function inForceLines(actions: readonly Static<typeof Action>[]): string[] {
  return actions.flatMap((action) => wrap(sayAction(action), terminalWidth(), "    "));
}

/** What became of a `POST` to `/nodes` or `/upstreams`; undefined: the answer is of another form. */
export function doneLines(answer: unknown): string[] | undefined {
  if (!actionCheck.Check(answer)) return undefined;
  return wrap(`${sayAction(answer.action)}; ${sayScope(answer)}`, terminalWidth(), "    ");
}

function sayAction({ upstream, node, state, weight, mode, reason, until }: Static<typeof Action>): string {
  const what = [
    isText(state) ? state : undefined,
    isText(mode) ? mode : undefined,
    typeof weight === "number" ? `weight ${weight}` : undefined,
  ].filter((part) => part !== undefined);
  const who = typeof node === "number" ? `${upstream}, node ${node}` : upstream;
  const end = isText(until) ? `, until ${until}` : "";
  return `${who}: ${what.join(", ")}${end}${isText(reason) ? ` (${reason})` : ""}`;
}

/** Where an action took effect. */
export function sayScope({ scope, replicas }: { readonly scope: string; readonly replicas?: Reached }): string {
  if (replicas !== undefined) return sayReached(replicas);
  return scope === "fleet" ? "on all replicas" : "on this replica";
}

/** How the gateway is, in the sentence that the console has, and what it rests on. */
export function healthLines({ version, uptimeSeconds, replica, health, upstreams }: GatewayStatus): string[] {
  const sentence = health?.sentence ?? sayCount(upstreams.length, "upstream");
  const where = replica === undefined ? "" : ` on ${replica.name}`;
  const build = replica === undefined || replica.revision === "-" ? "" : ` (${replica.revision})`;
  const head = `registry-gateway ${version}${build}${where} has run for ${sayDuration(uptimeSeconds * 1000)}: ${sentence}`;
  const findings = health?.findings ?? [];
  const lines =
    findings.length < 2
      ? []
      : findings.map(({ severity, text, since }) => `${severity}: ${text} (seen since ${since})`);
  return [head, ...lines].flatMap((line) => wrap(line, terminalWidth(), "    "));
}
