import type { Clock, Duration, Instant } from "../clock.ts";
import type { Upstreams } from "../upstream/upstreams.ts";

/** A gateway whose registries are all away is ready by then: what is stored is served. */
const LATEST: Duration = 5_000;

interface ReadinessOptions {
  readonly clock: Clock;
  readonly upstreams: () => Pick<Upstreams, "all">;
  readonly isDraining: () => boolean;
}

/**
 * Whether clients may be sent here: a node of some registry has named its admin, or 5 s are over. Once ready, no registry and
 * no Redis makes a replica unready, since all of them would be so at once.
 */
export class Readiness {
  private readonly options: ReadinessOptions;
  private readonly latest: Instant;
  private wasReady = false;

  /** Made just before the listeners are up: the 5 s begin. */
  constructor(options: ReadinessOptions) {
    this.options = options;
    this.latest = options.clock.now() + LATEST;
  }

  get isReady(): boolean {
    const { clock, upstreams, isDraining } = this.options;
    this.wasReady ||= clock.now() >= this.latest || upstreams().all.some((upstream) => hasUpNode(upstream.status()));
    return this.wasReady && !isDraining();
  }
}

function hasUpNode({ nodes }: { readonly nodes: readonly { readonly state: string }[] }): boolean {
  return nodes.some(({ state }) => state === "up");
}
