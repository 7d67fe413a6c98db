import type { Clock, Duration } from "../clock.ts";
import type { Rate } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import { formatDuration } from "../units.ts";
import type { Access } from "./access.ts";
import type { Node } from "./node.ts";
import type { NodeStatus, UpstreamStatus } from "./types.ts";

/** Age of the last answer from which on the status of a node that is up tells it. */
const LATELY: Duration = 60_000;

/** Time for which a pause is told after its end: one that comes now and then would be seen by luck alone. */
const PAUSED_LATELY: Duration = 20_000;

/** The 503 while no node is up, or fewer than are `wanted`. */
export function upstreamDown({ config, clock }: Access, nodes: readonly Node[], wanted = 1): GatewayError {
  const down = nodes.filter(({ mayBeAsked }) => !mayBeAsked);
  const soonest = Math.min(...down.map(({ askedAgainAt }) => askedAgainAt ?? Infinity));
  const retryAfter = Math.min(Math.max(Math.ceil((soonest - clock.now()) / 1_000), 1), 60);
  const what =
    wanted === 1
      ? `no node of the registry "${config.name}" is up`
      : `fewer nodes of the registry "${config.name}" are up than the ${wanted} that have to agree`;
  const why = `it ${down[0]?.health.cause ?? "has not told its admin yet"}`;
  return new GatewayError("upstream_down", `${what}: ${why}; try again in ${retryAfter} s`, { retryAfter });
}

/** The state of a registry and its nodes. `disabled`: the words for why it is not used. */
export function statusOf(access: Access, nodes: readonly Node[], disabled: string | undefined): UpstreamStatus {
  const { config, admin, places, rate, credentials } = access;
  const { party } = admin;
  const state = disabled === undefined ? stateOf(nodes) : "disabled";
  const all = nodes.map((node) => nodeStatus(node, access.clock));
  const cause = disabled ?? (config.mode === "cache-only" ? "cache-only: nothing is asked of it" : causeOf(all, state));
  const credential = credentials.status();
  return {
    name: config.name,
    ...(party !== undefined && { admin: party }),
    mode: config.mode,
    state,
    ...(cause !== undefined && { cause }),
    since: sinceOf(all, state),
    nodes: all,
    inFlight: places.running,
    waiting: places.waiting,
    ...(config.rateLimit !== undefined && {
      limit: {
        requests: rateText(config.rateLimit.requests),
        ...(config.rateLimit.burst !== undefined && { burst: rateText(config.rateLimit.burst) }),
        waiting: rate?.waiting ?? 0,
      },
    }),
    ...(credential !== undefined && { credential }),
  };
}

function stateOf(nodes: readonly Node[]): "up" | "down" | "unproved" {
  if (nodes.some(({ state }) => state === "up")) return "up";
  return nodes.some(({ state }) => state === "unproved") ? "unproved" : "down";
}

/** A registry is up since its first node is, and down since its last node is. */
function sinceOf(nodes: readonly NodeStatus[], state: UpstreamStatus["state"]): number {
  const up = nodes.filter((node) => node.state === "up").map(({ since }) => since);
  return state === "up" ? Math.min(...up) : Math.max(...nodes.map(({ since }) => since));
}

function causeOf(nodes: readonly NodeStatus[], state: UpstreamStatus["state"]): string | undefined {
  const ill = nodes.filter((node) => node.state === "out" || node.state === "wrong");
  const paused = nodes.filter(({ pausedUntil }) => pausedUntil !== undefined);
  const [first] = [...ill, ...paused];
  if (first !== undefined) {
    const count = ill.length > 0 ? ill.length : paused.length;
    return nodes.length === 1 ? first.cause : `${first.cause} (${count} of ${nodes.length} nodes)`;
  }
  return state === "up" && nodes.every(({ cause }) => cause !== undefined) ? nodes[0]!.cause : undefined;
}

function nodeStatus(node: Node, clock: Clock): NodeStatus {
  const { state, since } = node.health;
  const { lastAnswer } = node;
  const left = node.pausedUntil - clock.now();
  const pausedUntil = left > -PAUSED_LATELY ? clock.wallNow() + left : undefined;
  const cause = causeOfNode(node, pausedUntil, clock);
  return {
    url: new URL(node.url).host,
    state,
    ...(cause !== undefined && { cause }),
    since,
    ...(lastAnswer !== undefined && { lastAnswer }),
    ...(pausedUntil !== undefined && { pausedUntil }),
    inFlight: node.inFlight,
  };
}

function causeOfNode({ health, lastAnswer }: Node, pausedUntil: number | undefined, clock: Clock): string | undefined {
  if (health.state === "out" || health.state === "wrong") return health.cause;
  if (pausedUntil !== undefined) {
    return `answered 429, ${pausedUntil > clock.wallNow() ? "paused" : "was paused"} until ${timeOf(pausedUntil)}`;
  }
  if (health.state === "unproved") return "has not told its admin yet";
  const ago = lastAnswer === undefined ? 0 : clock.wallNow() - lastAnswer;
  return ago < LATELY ? undefined : `last answer ${agoText(ago)} ago`;
}

function timeOf(wall: number): string {
  return `${new Date(wall).toISOString().slice(11, 19)} UTC`;
}

function agoText(ago: Duration): string {
  const minutes = Math.floor(ago / 60_000);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}

function rateText({ requests, per }: Rate): string {
  return `${requests}/${formatDuration(per)}`;
}
