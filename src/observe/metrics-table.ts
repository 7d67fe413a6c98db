import type { NodeState, UpstreamStatus } from "../upstream/types.ts";
import { parseDuration } from "../units.ts";
import { version } from "../version.ts";
import type { GatewayState } from "./state.ts";
import { LATENCY_BOUNDS } from "./totals.ts";

/** Values of a family's labels, in the order of its `labels`, and the number. */
export type Sample = readonly [labels: readonly string[], value: number];

/** One family of `/metrics`. */
export interface Family {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds of a histogram's buckets. */
  readonly buckets?: readonly number[];
  /** Reads a state at the scrape. Without it the family is counted as things happen. */
  readonly read?: (state: GatewayState) => readonly Sample[];
}

/** Begins the name of each family in `/metrics`. */
export const PREFIX = "registry_gateway_";

/** Label where no upstream, operation, client or cache had to do with a request. */
export const NONE = "none";

const UPSTREAM_STATES = ["up", "down", "unproved", "disabled"] as const satisfies readonly UpstreamStatus["state"][];
const NODE_STATES = ["up", "unproved", "out", "wrong"] as const satisfies readonly NodeState[];
const MODES = ["normal", "cache-only"] as const satisfies readonly UpstreamStatus["mode"][];

const REDIS_BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1];

/**
 * Every family, by its name without {@link PREFIX}. `docs/metrics.md` is made of it. Labels are bounded: names of the
 * configuration, operations, codes and reasons of tables; never a party, a contract or an instrument.
 */
export const FAMILIES = {
  // Clients
  requests_total: counted("Requests answered, by class of status. `gone`: the client went away before its answer.", [
    "operation",
    "upstream",
    "status",
  ]),
  request_duration_seconds: measured("A request from its begin to its answer's end. `outcome`: the cache's.", [
    "operation",
    "outcome",
  ]),
  errors_total: counted("Errors of the gateway's own, by code (`docs/errors.md`).", ["code"]),
  connections: state("Connections of clients that are open.", (is) => is.connections),
  client_requests_total: counted("Requests by client. `other`: clients beyond the first 500.", ["client", "status"]),
  client_refusals_total: counted("Requests refused for their credential or by their tier.", ["client", "code"]),

  // Cache
  cache_answers_total: counted("Answers that may be cached, by how the cache came by them.", [
    "upstream",
    "operation",
    "outcome",
  ]),
  cache_evictions_total: counted("Entries that left memory to make room.", []),
  cache_bytes: state("Memory that entries take.", ({ cache }) => cache.bytes),
  cache_max_bytes: state("Memory that entries may take: `cache.memory`.", ({ cache }) => cache.maxBytes),
  cache_entries: state("Entries in memory.", ({ cache }) => cache.entries),
  purges_total: counted("Purges. `pending`: Redis was away, so other replicas learn of it later.", ["outcome"]),

  // Registries
  upstream_state: oneOf("state", UPSTREAM_STATES, ({ state }) => state, {
    help: "1 for the state of a registry. `down`: no node is up. `disabled`: nodes or upstreams contradict each other.",
  }),
  upstream_mode: oneOf("mode", MODES, ({ mode }) => mode, { help: "1 for the configured mode of a registry." }),
  upstream_nodes: {
    type: "gauge",
    help: "Nodes by state. `out`: its last info failed. `wrong`: it names another admin.",
    labels: ["upstream", "state"],
    read: ({ upstreams }) =>
      upstreams.flatMap(({ name, nodes }) =>
        NODE_STATES.map((each): Sample => [[name, each], nodes.filter(({ state }) => state === each).length]),
      ),
  },
  upstream_paused_nodes: perUpstream(
    "Nodes that answered 429 and are not asked before their `Retry-After` is over.",
    ({ nodes }, now) => nodes.filter(({ pausedUntil }) => pausedUntil !== undefined && pausedUntil > now).length,
  ),
  upstream_attempts_total: counted("Requests to nodes, infos included, by what came of them.", [
    "upstream",
    "operation",
    "outcome",
  ]),
  upstream_attempt_duration_seconds: measured(
    "One request to a node. `kind`: `info` (proofs), `metadata`, or `call` (factories, contexts, what passes through).",
    ["upstream", "kind"],
  ),
  upstream_retries_total: counted("Further attempts of a call. `hedge`: beside one that is late.", [
    "upstream",
    "kind",
  ]),
  upstream_refused_calls_total: counted("Calls that ended before a node was asked, by code of the error.", [
    "upstream",
    "reason",
  ]),
  upstream_agreements_total: counted("Factories and contexts asked of several nodes (`agreement` above 1).", [
    "upstream",
    "outcome",
  ]),
  upstream_calls_in_flight: perUpstream("Calls that run.", ({ inFlight }) => inFlight),
  upstream_calls_waiting: perUpstream("Calls that wait for one of those that run to end.", ({ waiting }) => waiting),
  upstream_limit_waiting: perUpstream("Calls that wait for `rateLimit`.", ({ limit }) => limit?.waiting),
  upstream_limit_per_second: perUpstream("`rateLimit` as calls a second, over all replicas.", ({ limit }) =>
    limit === undefined ? undefined : callsPerSecond(limit.requests),
  ),
  upstream_credential_unusable: perUpstream("1: the credential of `auth` cannot be had or is refused.", (upstream) =>
    upstream.credential === undefined ? 0 : 1,
  ),

  // Redis and replicas
  redis_up: state("1: Redis answers. Absent where none is configured.", ({ redis }) =>
    redis.redis === "off" ? undefined : Number(redis.redis === "up"),
  ),
  redis_commands_total: counted("Commands to Redis. `skipped`: it is away and was not asked.", ["command", "outcome"]),
  redis_command_duration_seconds: { ...measured("A command to Redis.", ["command"]), buckets: REDIS_BOUNDS },
  replicas: state("Replicas that Redis was told of lately, this one included.", ({ redis }) => redis.replicas),

  // The process
  config_last_reload_successful: state("0: the last configuration was refused; the one before it runs.", (is) =>
    Number(is.reload.refused === undefined),
  ),
  config_taken_timestamp_seconds: state("When the running configuration was taken.", (is) => is.reload.takenAt / 1_000),
  config_info: {
    ...info("1 for the digest of the running configuration.", "digest"),
    read: (is) => [[[is.digest], 1]],
  },
  build_info: { ...info("1 for the running version.", "version"), read: () => [[[version], 1]] },
  certificate_expiry_seconds: {
    type: "gauge",
    help: "Time until a certificate of the configuration ends; negative when it has ended.",
    labels: ["role", "peer"],
    read: ({ certificates, now }) =>
      certificates.map(({ role, peer, endsAt }): Sample => [[role, peer], (endsAt - now) / 1_000]),
  },
  log_lines_dropped_total: {
    ...counted("Log lines left out because nobody read them in time.", []),
    read: (is) => [[[], is.droppedLines]],
  },
} as const satisfies Readonly<Record<string, Family>>;

export type FamilyName = keyof typeof FAMILIES;

function counted(help: string, labels: readonly string[]): Family {
  return { type: "counter", help, labels };
}

function measured(help: string, labels: readonly string[]): Family {
  return { type: "histogram", help, labels, buckets: LATENCY_BOUNDS };
}

function info(help: string, label: string): Family {
  return { type: "gauge", help, labels: [label] };
}

/** @param read undefined: there is no such thing now */
function state(help: string, read: (state: GatewayState) => number | undefined): Family {
  return {
    type: "gauge",
    help,
    labels: [],
    read: (is) => {
      const value = read(is);
      return value === undefined ? [] : [[[], value]];
    },
  };
}

/** @param read undefined: of this upstream there is no such thing */
function perUpstream(help: string, read: (upstream: UpstreamStatus, now: number) => number | undefined): Family {
  return {
    type: "gauge",
    help,
    labels: ["upstream"],
    read: ({ upstreams, now }) =>
      upstreams.flatMap((upstream): Sample[] => {
        const value = read(upstream, now);
        return value === undefined ? [] : [[[upstream.name], value]];
      }),
  };
}

/** One series for each value that a state of an upstream can have: 1 for the one it has, 0 for the others. */
function oneOf<Value extends string>(
  label: string,
  values: readonly Value[],
  valueOf: (upstream: UpstreamStatus) => Value,
  { help }: { readonly help: string },
): Family {
  return {
    type: "gauge",
    help,
    labels: ["upstream", label],
    read: ({ upstreams }) =>
      upstreams.flatMap((upstream) =>
        values.map((each): Sample => [[upstream.name, each], Number(valueOf(upstream) === each)]),
      ),
  };
}

/** Calls a second of a rate as the configuration has it: 2 of `120/1m`. */
function callsPerSecond(rate: string): number | undefined {
  const [requests, per] = rate.split("/", 2);
  const duration = parseDuration(per ?? "");
  return duration === undefined ? undefined : (Number(requests) * 1_000) / duration;
}
