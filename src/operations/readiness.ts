import type { Clock } from "../clock.ts";
import type { UpstreamState, UpstreamStatus } from "../upstream/status.ts";

/** How long a replica waits for its first admin, and for Redis, before it serves without. */
const ADMIN_GRACE = 5_000;
const REDIS_GRACE = 1_000;

/** No node of theirs has proved the right admin. */
const WITHOUT_ADMIN: ReadonlySet<UpstreamState> = new Set(["unproved", "disabled", "wrong-admin"]);

export interface ReadinessSources {
  readonly clock: Clock;
  isDraining(): boolean;
  upstreams(): readonly UpstreamStatus[];
  /** True where Redis is not configured, too. */
  isRedisConnected(): boolean;
}

/** The body of `/readyz`. */
export interface ReadinessReport {
  readonly ready: boolean;
  /** Why it is not. */
  readonly reason?: string;
  readonly upstreams: readonly { readonly name: string; readonly state: UpstreamState }[];
}

/**
 * Whether this replica should get traffic. Once it was ready, neither upstreams nor Redis make it unready again: every
 * replica sees the same upstreams, and taking all of them out would help no client. Draining does, and so do upstreams that all
 * serve another admin than configured, which is a configuration to be taken back.
 */
export class Readiness {
  private readonly sources: ReadinessSources;
  private readonly startedAt: number;
  private wasReady = false;

  constructor(sources: ReadinessSources) {
    this.sources = sources;
    this.startedAt = sources.clock.now();
  }

  report(): ReadinessReport {
    const upstreams = this.sources.upstreams();
    const reason = this.reason(upstreams);
    const states = upstreams.map(({ name, state }) => ({ name, state }));
    return reason === undefined ? { ready: true, upstreams: states } : { ready: false, reason, upstreams: states };
  }

  private reason(upstreams: readonly UpstreamStatus[]): string | undefined {
    if (this.sources.isDraining()) return "draining";
    if (upstreams.length > 0 && upstreams.every(({ state }) => state === "wrong-admin")) {
      return "every upstream serves another admin than configured";
    }
    if (this.wasReady) return undefined;
    const running = this.sources.clock.now() - this.startedAt;
    if (!this.sources.isRedisConnected() && running < REDIS_GRACE) return "waiting for Redis";
    const hasAdmin = upstreams.some(({ state }) => !WITHOUT_ADMIN.has(state));
    if (!hasAdmin && running < ADMIN_GRACE) return "waiting for an upstream to prove its admin";
    this.wasReady = true;
    return undefined;
  }
}
