import type { UpstreamConfig } from "../config/schema.ts";
import { RateLimitGroups } from "../limits/counted-calls.ts";
import type { UpstreamEnvironment } from "./parts.ts";
import type { UpstreamStatus } from "./status.ts";
import { Upstream } from "./upstream.ts";

/** Upstreams that were found rather than written. */
export interface FoundUpstreams {
  readonly configs: readonly UpstreamConfig[];
  /** False: an admin that is not known may yet be found. */
  readonly isComplete: boolean;
}

const NONE_FOUND: FoundUpstreams = { configs: [], isComplete: true };

/** The enabled upstreams of one configuration, and what was found besides, by alias and by admin. */
export class Upstreams {
  /** In the order of the configuration, and behind them those that were found. */
  readonly all: readonly Upstream[];
  private readonly byAlias: ReadonlyMap<string, Upstream>;
  private readonly claims: AdminClaims;
  /** Further registries may yet be found: one that is there alone may not be the only one. */
  readonly isSearching: boolean;
  private readonly groups: RateLimitGroups;

  /**
   * With `previous`, upstreams whose configuration did not change are taken over as they are, and changed ones keep
   * the proofs of the nodes they still have. One whose new credentials are no good stays as it was. Afterwards close the
   * previous set: {@link closeExcept}.
   */
  constructor(
    written: readonly UpstreamConfig[],
    environment: UpstreamEnvironment,
    previous?: Upstreams,
    found: FoundUpstreams = NONE_FOUND,
  ) {
    const claims = previous?.claims ?? new AdminClaims();
    const kept = new Set<string>();
    this.claims = claims;
    const groups = previous?.groups ?? new RateLimitGroups();
    this.groups = groups;
    const configs = [...written, ...found.configs].filter(({ enabled }) => enabled);
    groups.reset(configs);
    this.isSearching = !found.isComplete;
    this.all = configs.map((config) => {
      const old = previous?.byName(config.name);
      if (old?.isSameAs(config, environment.limits) !== true) {
        const upstream = new Upstream(config, environment, { claims, groups, old });
        if (old === undefined || !mustStay(old, upstream)) return upstream;
        void upstream.close();
      } else {
        // One that could not take its place may have said something else.
        old.sayCredentials();
      }
      kept.add(config.name);
      return old;
    });
    this.byAlias = new Map(this.all.map((upstream) => [upstream.name, upstream]));
    claims.reset({
      names: this.byAlias.keys(),
      kept,
      configured: adminsOf(written.filter(({ name }) => this.byAlias.has(name))),
      found: adminsOf(found.configs),
      onContest: (admin, claimants) => {
        environment.forget(admin);
        for (const name of claimants) this.byAlias.get(name)?.reconsider();
      },
    });
    for (const upstream of this.all) upstream.reconsider();
  }

  byName(name: string): Upstream | undefined {
    return this.byAlias.get(name);
  }

  /** The upstream whose admin, configured or proved by a node, is this party id. */
  byAdmin(admin: string): Upstream | undefined {
    const name = this.claims.holder(admin);
    const upstream = name === undefined ? undefined : this.byAlias.get(name);
    if (upstream?.admin === admin) return upstream;
    // A request that began before a reload has the upstreams of then, and aliases may stand for other admins now.
    return this.all.find((each) => each.admin === admin);
  }

  /** It was found, and is a written one, which has learned that since: one registry, and not two. */
  isTwin({ name, admin }: Upstream): boolean {
    return admin !== undefined && this.claims.isTwin(admin, name);
  }

  /** There are several registries, whether or not each is used. */
  get areSeveral(): boolean {
    const first = this.all.find((each) => !this.isTwin(each));
    return this.all.some((each) => each !== first && !this.isTwin(each));
  }

  /** The only registry; undefined where there are several, or others may yet be found. */
  get sole(): Upstream | undefined {
    return this.isSearching || this.areSeveral ? undefined : this.all.find((each) => !this.isTwin(each));
  }

  /** Some upstream has not named its admin yet, or is still to be found: an admin that is not known may be that one. */
  get unlearned(): boolean {
    return this.isSearching || this.all.some(({ admin }) => admin === undefined);
  }

  /** Begins to prove and check all nodes. */
  start(): void {
    for (const upstream of this.all) upstream.start();
  }

  /**
   * What another process announced through the coordinator, or undefined when something may have been missed:
   * nodes are asked anew, those it is about before they get another call.
   */
  receive(event: string | undefined): void {
    for (const upstream of this.all) upstream.receive(event);
  }

  /** What operators did may be another now. */
  followActions(): void {
    for (const upstream of this.all) upstream.followActions();
  }

  status(): UpstreamStatus[] {
    return this.all.map((upstream) => upstream.status());
  }

  /** Closes what `next` did not take over, as soon as its calls have ended; see {@link Upstream.close} for `users`. */
  async closeExcept(next: Upstreams | undefined, users?: Promise<unknown>): Promise<void> {
    const left = this.all.filter((upstream) => next?.all.includes(upstream) !== true);
    await Promise.all(left.map((upstream) => upstream.close(users)));
  }

  close(): Promise<void> {
    return this.closeExcept(undefined);
  }
}

/** Whether `next` could not be called for want of credentials, and `old`, for the same registry, can. */
function mustStay(old: Upstream, next: Upstream): boolean {
  return next.lacksCredentials && !old.lacksCredentials && old.config.admin === next.config.admin;
}

function adminsOf(configs: readonly UpstreamConfig[]): [admin: string, name: string][] {
  return configs.flatMap(({ name, admin }) => (admin === undefined ? [] : [[admin, name]]));
}

/**
 * Which upstream has which admin. Two with the same admin would make it a matter of chance where a request goes: the one
 * whose configuration names it has it; where none does, none of those that learned it may use it. One that was found
 * has its admin only while no written one names or has learned it.
 */
export class AdminClaims {
  private names: ReadonlySet<string> = new Set();
  private configured: ReadonlyMap<string, string> = new Map();
  private found: ReadonlyMap<string, string> = new Map();
  /** Those that learned an admin from their nodes, in the order in which they did. */
  private readonly learned = new Map<string, Set<string>>();
  private onContest: (admin: string, claimants: readonly string[]) => void = () => undefined;

  /** The alias of the upstream that has `admin`, or the first of those that claim it. */
  holder(admin: string): string | undefined {
    const [first] = this.learned.get(admin) ?? [];
    return this.configured.get(admin) ?? first ?? this.found.get(admin);
  }

  /** Whether `name` was found to have `admin`, which a written upstream has learned. */
  isTwin(admin: string, name: string): boolean {
    return this.found.get(admin) === name && this.holder(admin) !== name;
  }

  /** Whether several upstreams claim it and none is configured to have it. */
  isContested(admin: string): boolean {
    return !this.configured.has(admin) && (this.learned.get(admin)?.size ?? 0) > 1;
  }

  /** Claims `admin` for the upstream `name`. Returns why it may not have it, if it may not. */
  claim(admin: string, name: string): string | undefined {
    const owner = this.configured.get(admin);
    if (owner !== undefined) {
      const who = `the admin ${JSON.stringify(admin)} is configured for upstream "${owner}"`;
      return owner === name ? undefined : `${who}; remove one of the two, or make them nodes of one upstream`;
    }
    if (this.found.get(admin) === name) {
      const [first] = this.learned.get(admin) ?? [];
      if (first === undefined) return undefined;
      return `upstream "${first}" of the configuration has the admin ${JSON.stringify(admin)}, and what is written counts`;
    }
    const claimants = this.note(admin, name);
    if (claimants.size < 2) return undefined;
    const all = [...claimants].map((each) => `"${each}"`).join(" and ");
    return `upstreams ${all} both name the admin ${JSON.stringify(admin)}; set admin for the right one`;
  }

  /**
   * From now on there are only the upstreams `names`; of what was learned before, only what those `kept` learned stays.
   * `configured` admins belong to whom the configuration says, `found` ones to whom they were found for, until a written
   * upstream learns them. `onContest` is called with those that had an admin when
   * another one claims it too.
   */
  reset(next: {
    names: Iterable<string>;
    kept: ReadonlySet<string>;
    configured: Iterable<[string, string]>;
    found: Iterable<[string, string]>;
    onContest: (admin: string, claimants: readonly string[]) => void;
  }): void {
    this.names = new Set(next.names);
    this.configured = new Map(next.configured);
    this.found = new Map(next.found);
    this.onContest = next.onContest;
    for (const [admin, claimants] of this.learned) {
      for (const name of claimants) if (!next.kept.has(name)) claimants.delete(name);
      if (claimants.size === 0) this.learned.delete(admin);
    }
  }

  /** Returns all who claim it, this one included. */
  private note(admin: string, name: string): ReadonlySet<string> {
    const claimants = this.learned.get(admin) ?? new Set<string>();
    if (claimants.has(name)) return claimants;
    // An upstream that was removed may still hear from a node.
    if (!this.names.has(name)) return new Set([...claimants, name]);
    const finder = this.found.get(admin);
    const others = finder === undefined ? [...claimants] : [...claimants, finder];
    claimants.add(name);
    this.learned.set(admin, claimants);
    if (others.length > 0) this.onContest(admin, others);
    return claimants;
  }
}
