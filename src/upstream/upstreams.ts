import type { Logger } from "pino";
import type { Clock } from "../clock.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import { RateLimit } from "../limits/rate.ts";
import type { Sharing } from "../sharing/ports.ts";
import type { AdminEvents } from "./admin.ts";
import type { UpstreamObserver } from "./types.ts";
import { Upstream } from "./upstream.ts";

export interface UpstreamParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly observer: UpstreamObserver;
  readonly sharing: Pick<Sharing, "limiter">;
  /** Calls may have gone to another registry in place of this party's: what is stored of the party has to go. */
  onWrongAdmin(party: string): void;
}

/** The registries of one configuration, by alias and by admin. */
export class Upstreams {
  /** The enabled ones, in order. */
  readonly all: readonly Upstream[];
  private readonly names: ReadonlyMap<string, Upstream>;
  private byParty: ReadonlyMap<string, Upstream> = new Map();

  /**
   * Makes the upstreams of a configuration. They share with `previous` the limits by name or group, and nodes with their
   * proofs by URL: {@link start} the new ones, then {@link close} the previous ones.
   */
  constructor({ config, texts }: LoadedConfig, previous: Upstreams | undefined, parts: UpstreamParts) {
    const { clock, log, observer } = parts;
    const enabled = config.upstreams.filter((each) => each.enabled);
    const limits = limitsOf(enabled, parts);
    const events = this.eventsFor(parts);
    const shared = { answerLimit: config.limits.responseBody, texts, events, clock, log, observer };
    this.all = enabled.map(
      (each) => new Upstream(each, { ...shared, rate: limits.get(limitKey(each)) }, previous?.byName(each.name)),
    );
    this.names = new Map(this.all.map((upstream) => [upstream.name, upstream]));
    this.settle();
  }

  byName(name: string): Upstream | undefined {
    return this.names.get(name);
  }

  /** The upstream whose admin, configured or learned, is this party id. */
  byAdmin(party: string): Upstream | undefined {
    return this.byParty.get(party);
  }

  /** The upstream that is the only enabled one. */
  get sole(): Upstream | undefined {
    return this.all.length === 1 ? this.all[0] : undefined;
  }

  /** Whether some upstream has not told its admin yet: an unknown admin may be its own. */
  get hasUnlearned(): boolean {
    return this.all.some(({ admin }) => admin === undefined);
  }

  /** Begins asking infos in the background. */
  start(): void {
    for (const upstream of this.all) upstream.start();
  }

  /** Closes what the successor did not take over; without one, everything. */
  close(successor?: Upstreams): void {
    for (const upstream of this.all) upstream.close(successor?.byName(upstream.name));
  }

  /** Apart from the constructor, whose `previous` they would hold for as long as an upstream lives. */
  private eventsFor(parts: UpstreamParts): AdminEvents {
    return { onLearned: () => this.settle(), onWrong: (party) => parts.onWrongAdmin(party) };
  }

  /** Decides which upstream has which admin. Of two with the same one the pinned one has it; else both are disabled. */
  private settle(): void {
    const parties = Map.groupBy(
      this.all.filter(({ admin }) => admin !== undefined),
      ({ admin }) => admin!,
    );
    const byParty = new Map<string, Upstream>();
    for (const [party, claimants] of parties) {
      const pinned = claimants.filter(({ config }) => config.admin !== undefined);
      const owner = pinned.length === 1 ? pinned[0] : undefined;
      for (const each of claimants) {
        each.twin = each === owner ? undefined : claimants.find((other) => other !== each)?.name;
      }
      byParty.set(party, owner ?? claimants[0]!);
    }
    this.byParty = byParty;
  }
}

/** Key of a limit, the same in all replicas. */
function limitKey({ name, rateLimit }: UpstreamConfig): string {
  return rateLimit?.group === undefined ? `upstream ${name}` : `group ${rateLimit.group}`;
}

/** Limits by key, one for all upstreams of a group. A reload loses no count: the limiter keeps counts by key. */
function limitsOf(
  configs: readonly UpstreamConfig[],
  { sharing: { limiter }, clock }: UpstreamParts,
): ReadonlyMap<string, RateLimit> {
  const limits = new Map<string, RateLimit>();
  for (const config of configs) {
    const key = limitKey(config);
    if (config.rateLimit === undefined || limits.has(key)) continue;
    const { requests, burst } = config.rateLimit;
    limits.set(key, new RateLimit(key, burst === undefined ? [requests] : [requests, burst], { limiter, clock }));
  }
  return limits;
}
