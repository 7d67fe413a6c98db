import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { DAY, type Clock, type Duration } from "../clock.ts";
import { formatDuration, parseDuration } from "../units.ts";
import { type Action, type HeldAction, MAX_ACTIONS } from "../sharing/actions.ts";
import type { ActionsPort, PurgeReach } from "../sharing/ports.ts";
import { GatewayError } from "../errors.ts";
import type { NodeStatus, UpstreamMode } from "../upstream/status.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Upstreams } from "../upstream/upstreams.ts";

/** For people: one line without what could act on a terminal. */
const Reason = Type.String({ pattern: /^[^\p{C}\p{Zl}\p{Zp}]{1,200}$/u });

/** The body of `POST /nodes`. */
const NodeRequest = Type.Object(
  {
    upstream: Type.String(),
    /** Its place in `urls`, from 0. */
    node: Type.Integer({ minimum: 0, maximum: 1_000 }),
    /** The node that the operator saw there: a reload may have moved it since. */
    url: Type.Optional(Type.String()),
    state: Type.Union([Type.Literal("active"), Type.Literal("cordoned")]),
    weight: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
    for: Type.Optional(Type.String()),
    reason: Type.Optional(Reason),
    force: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);

/** The body of `POST /upstreams`. */
const UpstreamRequest = Type.Object(
  {
    upstream: Type.String(),
    mode: Type.Union([Type.Literal("normal"), Type.Literal("cache-only")]),
    for: Type.Optional(Type.String()),
    reason: Type.Optional(Reason),
  },
  { additionalProperties: false },
);

const nodeValidator = Compile(NodeRequest);
const upstreamValidator = Compile(UpstreamRequest);

const LEAST_FOR: Duration = 1_000;
const MOST_FOR: Duration = 30 * DAY;

const COMMON = 'for (how long it lasts, from 1s to 720h, such as "30m") and reason (1 to 200 printable characters)';
const TAKES = {
  node: `upstream (its name), node (its place in urls, from 0), url (of the node that is meant), state ("active" or "cordoned"), weight (0 to 100), ${COMMON}, and force (true or false)`,
  upstream: `upstream (its name), mode ("normal" or "cache-only"), ${COMMON}`,
};

/** Who asks: what was shown, and from which kind of address; never a secret. */
export type Operator = Pick<Action, "by" | "from">;

/** An operator's `POST /nodes` or `POST /upstreams`. */
export interface ActRequest {
  readonly on: keyof typeof TAKES;
  readonly body: unknown;
  readonly operator: Operator;
}

/** An action as people read it. */
export interface ActionReport extends Operator {
  readonly upstream: string;
  /** Place of the node in `urls`, from 0; null: the upstream as a whole. */
  readonly node: number | null;
  readonly url: string | null;
  readonly state: "active" | "cordoned" | null;
  /** Null: the configured one. */
  readonly weight: number | null;
  readonly mode: UpstreamMode | null;
  readonly reason: string | null;
  readonly since: string;
  /** Null: until it is undone. */
  readonly until: string | null;
}

export interface ActResult {
  readonly action: ActionReport;
  readonly reach: PurgeReach;
}

export interface ActParts {
  readonly actions: ActionsPort;
  readonly upstreams: Upstreams;
  readonly clock: Clock;
}

/**
 * Does what `body` says to a node or an upstream.
 *
 * @throws GatewayError 400 for a body of another form, 404 for an unknown upstream or node, 409 for another node than
 * was meant, for the last one that takes calls without `force`, and when too much is in force already
 */
export async function act(parts: ActParts, { on, body, operator }: ActRequest): Promise<ActResult> {
  const action = on === "node" ? nodeAction(parts, body, operator) : upstreamAction(parts, body, operator);
  const { actions, clock } = parts;
  if (actions.isFull && actions.find(action.upstream, action.node) === undefined) {
    throw new GatewayError("too_many_actions", `${MAX_ACTIONS} actions are in force: undo one of them first`);
  }
  const lasts = durationOf((body as { readonly for?: string }).for, action);
  const reach = await actions.act({ action, lasts });
  const now = clock.now();
  const held = { action, since: now, until: lasts === undefined ? undefined : now + lasts };
  return { action: reportAction(held, parts), reach };
}

function nodeAction({ upstreams }: ActParts, body: unknown, operator: Operator): Action {
  if (!nodeValidator.Check(body)) throw invalid("node");
  const { upstream: name, node: index, url, state, weight, reason, force } = body;
  const upstream = findUpstream(upstreams, name);
  const { nodes } = upstream.status();
  const node = nodes[index];
  if (node === undefined) {
    const text = `upstream ${JSON.stringify(name)} has no node ${index}: it has ${nodes.length}, and the first is 0`;
    throw new GatewayError("unknown_node", text);
  }
  if (url !== undefined && url !== node.url) {
    throw new GatewayError("node_moved", `node ${index} of upstream ${JSON.stringify(name)} is ${node.url} now`);
  }
  if (state === "cordoned" && force !== true) checkNotLast(name, node, nodes);
  return {
    upstream: name,
    node: node.url,
    ...(state === "cordoned" && { state }),
    ...(weight !== undefined && { weight }),
    ...(reason !== undefined && { reason }),
    ...operator,
  };
}

function upstreamAction({ upstreams }: ActParts, body: unknown, operator: Operator): Action {
  if (!upstreamValidator.Check(body)) throw invalid("upstream");
  const { upstream, mode, reason } = body;
  findUpstream(upstreams, upstream);
  return { upstream, ...(mode === "cache-only" && { mode }), ...(reason !== undefined && { reason }), ...operator };
}

/** 409, not 400: the request is good, and what it says meets a state that the operator can change (RFC 9110 §15.5.10). */
function checkNotLast(upstream: string, node: NodeStatus, nodes: readonly NodeStatus[]): void {
  const others = nodes.filter((each) => each !== node && !each.cordoned);
  // One that serves another registry, or never named its admin, would answer nothing.
  const left = isProved(node) ? others.filter(isProved) : others;
  if (left.length > 0) return;
  const text = `no other node of upstream ${JSON.stringify(upstream)} could take its calls; add "force": true to cordon it all the same`;
  throw new GatewayError("last_node", text);
}

function isProved({ state }: NodeStatus): boolean {
  return state === "up" || state === "ejected";
}

/** @throws GatewayError 404 where there is no upstream of this name */
export function findUpstream(upstreams: Upstreams, name: string): Upstream {
  const upstream = upstreams.byName(name);
  if (upstream !== undefined) return upstream;
  throw new GatewayError("unknown_upstream", `there is no upstream ${JSON.stringify(name)}`);
}

function durationOf(text: string | undefined, { state, weight, mode }: Action): Duration | undefined {
  if (text === undefined) return undefined;
  const duration = parseDuration(text);
  if (duration === undefined || duration < LEAST_FOR || duration > MOST_FOR) {
    const range = `from ${formatDuration(LEAST_FOR)} to ${formatDuration(MOST_FOR)}`;
    throw new GatewayError("invalid_request", `for is not a duration ${range}, such as 30m or 2h`);
  }
  if ((state ?? weight ?? mode) === undefined) {
    throw new GatewayError("invalid_request", "for says how long something lasts, and this undoes it: leave it out");
  }
  return duration;
}

function invalid(on: keyof typeof TAKES): GatewayError {
  const text = `the request is not valid: it is a JSON object that takes ${TAKES[on]}, and nothing else`;
  return new GatewayError("invalid_request", text);
}

/** What is in force for upstreams and nodes of the configuration in use. */
export function reportInForce(parts: ActParts): ActionReport[] {
  return parts.actions.all().flatMap((held) => {
    const { upstream, node } = held.action;
    const known = parts.upstreams.byName(upstream);
    if (known === undefined || (node !== undefined && known.nodeIndex(node) === -1)) return [];
    return [reportAction(held, parts)];
  });
}

function reportAction({ action, since, until }: HeldAction, { upstreams, clock }: ActParts): ActionReport {
  const { upstream, node, state, weight, mode, reason, by, from } = action;
  const timeOf = (instant: number) => new Date(clock.wallNow() + instant - clock.now()).toISOString();
  return {
    upstream,
    node: node === undefined ? null : (upstreams.byName(upstream)?.nodeIndex(node) ?? null),
    url: node ?? null,
    state: node === undefined ? null : (state ?? "active"),
    weight: weight ?? null,
    mode: node === undefined ? (mode ?? "normal") : null,
    reason: reason ?? null,
    by,
    from,
    since: timeOf(since),
    until: until === undefined ? null : timeOf(until),
  };
}
