import type { Clock, Duration, Instant } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import { digestOf } from "../digest.ts";
import { reportConfig } from "../operations/config-report.ts";
import type { ActionsPort } from "../sharing/ports.ts";
import { MOST_NODES_DOWN, type ReplicaState } from "../sharing/replicas.ts";
import type { UpstreamStatus } from "../upstream/status.ts";
import type { LoopLoad } from "./overload.ts";

/** What a replica looks at to say how it does. */
export interface ReplicaSources {
  readonly clock: Clock;
  readonly actions: ActionsPort;
  config(): Config;
  /** Of the keys of clients; undefined: there is no keys file. */
  clientKeys(): string | undefined;
  upstreams(): readonly UpstreamStatus[];
  /** Requests answered since the start. */
  answered(): number;
  load(): LoopLoad;
  residentBytes(): number;
}

/** Over how long requests are counted. */
const COUNT_EVERY: Duration = 5_000;

interface PrintedConfig extends Record<string, unknown> {
  readonly discovery?: { pinFile?: string };
}

/** What this replica says to the others of itself. */
export class ReplicaStateSource {
  private readonly sources: ReplicaSources;
  private readonly startedAt: Instant;
  private configuration: { readonly of: Config; readonly digest: string } | undefined;
  private countedAt: Instant;
  private answered = 0;
  private requestsPerSecond = 0;

  constructor(sources: ReplicaSources) {
    this.sources = sources;
    this.startedAt = sources.clock.now();
    this.countedAt = this.startedAt;
  }

  read(): ReplicaState {
    const { sources } = this;
    this.count();
    const down = sources
      .upstreams()
      .flatMap(({ name, nodes }) =>
        nodes.flatMap(({ state }, place) =>
          state === "ejected" || state === "wrong-admin" ? [`${name} ${place}`] : [],
        ),
      );
    return {
      uptimeSeconds: Math.round((sources.clock.now() - this.startedAt) / 1_000),
      load: {
        requestsPerSecond: this.requestsPerSecond,
        busy: Math.min(1, Math.max(0, Math.round(sources.load().utilization * 1_000) / 1_000)),
        residentBytes: Math.round(sources.residentBytes()),
      },
      follows: {
        configuration: this.configurationDigest(),
        clientKeys: sources.clientKeys() ?? null,
        actions: this.actionsDigest(),
      },
      nodesDown: down.slice(0, MOST_NODES_DOWN),
    };
  }

  private count(): void {
    const now = this.sources.clock.now();
    const passed = now - this.countedAt;
    if (passed < COUNT_EVERY) return;
    const answered = this.sources.answered();
    this.requestsPerSecond = Math.round(((answered - this.answered) / passed) * 10_000) / 10;
    this.answered = answered;
    this.countedAt = now;
  }

  /** Replicas on one machine have listeners and a pin file of their own. */
  private configurationDigest(): string {
    const config = this.sources.config();
    if (this.configuration?.of !== config) {
      const { listen: _, operations: __, ...others } = reportConfig(config, undefined).config as PrintedConfig;
      delete others.discovery?.pinFile;
      this.configuration = { of: config, digest: digestOf(JSON.stringify(others)) };
    }
    return this.configuration.digest;
  }

  private actionsDigest(): string {
    const inForce = this.sources.actions
      .all()
      .map(({ action: { upstream, node, state, weight, mode } }) =>
        JSON.stringify([upstream, node, state, weight, mode]),
      );
    return digestOf(inForce.toSorted().join("\n"));
  }
}
