import type { GatewayState } from "../../../src/observe/state.ts";
import type { RequestRecord } from "../../../src/requests/record.ts";
import type { NodeStatus, UpstreamStatus } from "../../../src/upstream/types.ts";

/** A quarter past one in the afternoon (UTC) of 28 November 2026, Unix ms. */
export const NOW = Date.UTC(2026, 10, 28, 13, 15, 0);

/** A gateway of which nothing is wrong, but for what a case says. */
export function aState(own: Partial<GatewayState> = {}): GatewayState {
  return {
    now: NOW,
    digest: "aaaaaaaaaaaa",
    reload: { takenAt: NOW - 3_600_000 },
    redis: { redis: "off", replicas: 1 },
    cache: { bytes: 1_000, entries: 2, maxBytes: 64 * 2 ** 20 },
    certificates: [],
    upstreams: [anUpstream()],
    connections: 3,
    droppedLines: 0,
    ...own,
  };
}

type Own = Omit<Partial<UpstreamStatus>, "nodes"> & { readonly nodes?: readonly Partial<NodeStatus>[] };

/** A registry that is up with one node, but for what a case says. */
export function anUpstream({ nodes = [{}], ...own }: Own = {}): UpstreamStatus {
  return {
    name: "amulet",
    admin: "DSO::1220aa",
    mode: "normal",
    state: "up",
    since: NOW - 3_600_000,
    inFlight: 0,
    waiting: 0,
    ...own,
    nodes: nodes.map((node, i) => ({
      url: `${"ab"[i] ?? "c"}.example`,
      state: "up",
      since: NOW - 3_600_000,
      inFlight: 0,
      ...node,
    })),
  };
}

/** A request that was answered 200 without the cache, but for what a case says. */
export function aRecord(own: Partial<RequestRecord> = {}): RequestRecord {
  return {
    id: "request-1",
    at: NOW,
    method: "GET",
    url: "/registry/metadata/v1/instruments/Amulet",
    operation: "instrument",
    upstream: "amulet",
    client: undefined,
    tier: undefined,
    address: "192.0.2.1",
    status: 200,
    code: undefined,
    outcome: undefined,
    seconds: 0.01,
    waited: 0,
    attempts: 0,
    node: undefined,
    bytes: 120,
    traceparent: undefined,
    error: undefined,
    ...own,
  };
}
