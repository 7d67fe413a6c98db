import type { Clock, Duration, Instant } from "../../clock.ts";

/** A registry that changes its mind all the time is reported no more often. */
const LEAST_PAUSE: Duration = 60_000;

/** What one node's own info named last; undefined before it did. */
export interface NodeApis {
  supportedApis: readonly string[] | undefined;
}

/** What a registry supports from now on, and did not before, and the other way: each a name and its minor version. */
export interface ApiChange {
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

/**
 * Which APIs the registry supports, by the info of its nodes. While it is upgraded, nodes contradict each other: what
 * counts is that one of them says something else than it did itself.
 */
export class SupportedApis {
  private readonly clock: Clock;
  private known: readonly string[] | undefined;
  private changedAt: Instant = -Infinity;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Takes over what was known under an earlier configuration. */
  inherit(old: SupportedApis): void {
    this.known = old.known;
    this.changedAt = old.changedAt;
  }

  /** A node named these. Returns what changed for the registry, if anything did. */
  note(node: NodeApis, apis: readonly string[]): ApiChange | undefined {
    const now = this.clock.now();
    const { known } = this;
    if (known === undefined || node.supportedApis === undefined || isSame(node.supportedApis, apis)) {
      this.known ??= apis;
      node.supportedApis = apis;
      return undefined;
    }
    // Nothing is noted: should it last, the next info says so again.
    if (now - this.changedAt < LEAST_PAUSE && !isSame(known, apis)) return undefined;
    node.supportedApis = apis;
    if (isSame(known, apis)) return undefined;
    this.known = apis;
    this.changedAt = now;
    return {
      added: apis.filter((api) => !known.includes(api)),
      removed: known.filter((api) => !apis.includes(api)),
    };
  }
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((api, at) => api === other[at]);
}
