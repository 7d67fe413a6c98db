import type { Clock, Duration, Instant } from "../clock.ts";
import type { Replica, ReplicaLoad, ReplicaReport, ReplicasPort } from "../sharing/replicas.ts";
import { sayCount } from "../words/quantity.ts";

/** What replicas should have in common. */
const COMMON = {
  build: "another build",
  configuration: "another configuration",
  clientKeys: "other keys of clients",
  actions: "other operator actions",
} as const;

/** In what a replica differs from most others. */
export type ReplicaDifference = keyof typeof COMMON | "nodes";

/** A replica in `GET /replicas`. */
export interface ReplicaRow extends ReplicaReport {
  /** It is the one that answers. */
  readonly isSelf: boolean;
  /** Null, as its load: it has not said yet. */
  readonly uptimeSeconds: number | null;
  readonly load: ReplicaLoad | null;
  readonly differs: readonly ReplicaDifference[];
}

/** What `GET /replicas` answers. */
export interface ReplicasReport {
  /** The one that answers first. */
  readonly replicas: readonly ReplicaRow[];
  /** How many there are besides that cannot be read: of an earlier release, or with other seal keys. */
  readonly unknown: number;
  /** In what they differ: a sentence each. */
  readonly differences: readonly string[];
}

/** The longest that shared state takes to reach all; a node that fails for one replica fails for the others soon. */
const SETTLES_IN: Duration = 30_000;

/** More sentences help nobody. */
const MOST_DIFFERENCES = 20;

interface Difference {
  readonly kind: ReplicaDifference;
  readonly who: readonly string[];
  readonly text: string;
}

/** The replicas, in what they differ, and since when. */
export class ReplicaWatch {
  private readonly port: Pick<ReplicasPort, "alive" | "lost" | "countUnknown">;
  private readonly clock: Clock;
  /** Bounded by what there is: what is over is forgotten at the next look. */
  private since = new Map<string, Instant>();

  constructor(port: Pick<ReplicasPort, "alive" | "lost" | "countUnknown">, clock: Clock) {
    this.port = port;
    this.clock = clock;
  }

  async report(): Promise<ReplicasReport> {
    const unknown = await this.port.countUnknown();
    const replicas = this.port.alive();
    const differences = this.look(replicas);
    const rows = replicas.map((replica, at) => rowOf(replica, at === 0, differences));
    return { replicas: rows, unknown, differences: differences.map(({ text }) => text) };
  }

  /** The differences that last longer than it takes to share what was changed. */
  settled(): readonly string[] {
    const now = this.clock.now();
    const settled = this.look(this.port.alive()).filter(({ text }) => now - this.since.get(text)! >= SETTLES_IN);
    return settled.map(({ text }) => text);
  }

  /** The names of those that ended without saying so. */
  lost(): readonly string[] {
    return this.port.lost().map(({ name }) => name);
  }

  private look(replicas: readonly Replica[]): readonly Difference[] {
    const found = differencesOf(replicas);
    const now = this.clock.now();
    const before = this.since;
    this.since = new Map(found.map(({ text }) => [text, before.get(text) ?? now]));
    return found;
  }
}

function rowOf(replica: Replica, isSelf: boolean, differences: readonly Difference[]): ReplicaRow {
  const { name, version, revision, since, state } = replica;
  return {
    name,
    version,
    revision,
    since,
    isSelf,
    uptimeSeconds: state?.uptimeSeconds ?? null,
    load: state?.load ?? null,
    differs: [...new Set(differences.filter(({ who }) => who.includes(name)).map(({ kind }) => kind))],
  };
}

function differencesOf(replicas: readonly Replica[]): readonly Difference[] {
  const kinds = Object.keys(COMMON) as (keyof typeof COMMON)[];
  const common = kinds.flatMap((kind) => findOdd(replicas, kind));
  return [...common, ...findNodes(replicas)].slice(0, MOST_DIFFERENCES);
}

/** Those that do not go by what most go by; where as many go by either, the replica that answers decides. */
function findOdd(replicas: readonly Replica[], kind: keyof typeof COMMON): readonly Difference[] {
  const told = replicas.filter((replica) => kind === "build" || replica.state !== undefined);
  const groups = [...Map.groupBy(told, (replica) => valueOf(replica, kind)).values()];
  if (groups.length < 2) return [];
  // The first group has the replica that answers, and sorting keeps the order of equals.
  const [most, ...odd] = groups.toSorted((a, b) => b.length - a.length);
  return odd.map((group) => {
    const who = group.map(({ name }) => name);
    const than = most!.length === 1 ? most![0]!.name : sayCount(most!.length, "other");
    return { kind, who, text: `${sayNames(who)} ${sayVerb(kind, who.length)} ${COMMON[kind]} than ${than}` };
  });
}

function sayVerb(kind: ReplicaDifference, count: number): string {
  if (kind === "build") return count === 1 ? "is" : "are";
  return count === 1 ? "follows" : "follow";
}

function valueOf({ version, revision, state }: Replica, kind: keyof typeof COMMON): string {
  if (kind === "build") return `${version} ${revision}`;
  return state!.follows[kind] ?? "";
}

/** Nodes that fail for some and not for others, of those with the configuration of the replica that answers. */
function findNodes(replicas: readonly Replica[]): readonly Difference[] {
  const [self] = replicas;
  const configuration = self?.state?.follows.configuration;
  const alike = replicas.filter(({ state }) => state !== undefined && state.follows.configuration === configuration);
  const nodes = new Set(alike.flatMap(({ state }) => state!.nodesDown));
  return [...nodes].flatMap((node) => {
    const who = alike.filter(({ state }) => state!.nodesDown.includes(node)).map(({ name }) => name);
    if (who.length === alike.length) return [];
    const [upstream, place] = node.split(" ");
    return [{ kind: "nodes", who, text: `node ${place} of ${upstream} fails for ${sayNames(who)} alone` } as const];
  });
}

const MOST_NAMED = 3;

function sayNames(names: readonly string[]): string {
  const [shown, more] = [names.slice(0, MOST_NAMED), names.length - MOST_NAMED];
  return more > 0 ? `${shown.join(", ")} and ${sayCount(more, "other")}` : shown.join(" and ");
}
