import type { UpstreamConfig } from "../config/schema.ts";
import { AdminClaims } from "./admin-claims.ts";
import type { UpstreamStatus } from "./status.ts";
import { Upstream } from "./upstream.ts";
import type { UpstreamEnvironment } from "./parts.ts";

/** The enabled upstreams of one configuration, by alias and by admin. */
export class Upstreams {
  /** In the order of the configuration. */
  readonly all: readonly Upstream[];
  private readonly byAlias: ReadonlyMap<string, Upstream>;
  private readonly claims: AdminClaims;

  /**
   * With `previous`, upstreams whose configuration did not change are taken over as they are, and changed ones keep
   * the proofs of the nodes they still have. One whose new credentials are no good stays as it was. Afterwards close the
   * previous set: {@link closeExcept}.
   */
  constructor(configs: readonly UpstreamConfig[], environment: UpstreamEnvironment, previous?: Upstreams) {
    const claims = previous?.claims ?? new AdminClaims();
    const kept = new Set<string>();
    this.claims = claims;
    this.all = configs
      .filter(({ enabled }) => enabled)
      .map((config) => {
        const old = previous?.byName(config.name);
        if (old?.isSameAs(config, environment.limits) !== true) {
          const upstream = new Upstream(config, environment, { claims, old });
          if (old === undefined || !mustStay(old, upstream)) return upstream;
          void upstream.close();
        }
        kept.add(config.name);
        return old;
      });
    this.byAlias = new Map(this.all.map((upstream) => [upstream.name, upstream]));
    claims.reset({
      names: this.byAlias.keys(),
      kept,
      configured: configuredAdmins(this.all),
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
    return name === undefined ? undefined : this.byAlias.get(name);
  }

  /** Some upstream has not told its admin yet: an admin that is not found may be that one. */
  get unlearned(): boolean {
    return this.all.some(({ admin }) => admin === undefined);
  }

  /** Begins to prove and check all nodes. */
  start(): void {
    for (const upstream of this.all) upstream.start();
  }

  /**
   * What another process announced through the coordinator, or undefined when something may have been missed:
   * nodes are asked anew, those it is about before they get another call.
   */
  hear(news: string | undefined): void {
    for (const upstream of this.all) upstream.hear(news);
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

function configuredAdmins(upstreams: readonly Upstream[]): [string, string][] {
  return upstreams.flatMap(({ name, config }) => (config.admin === undefined ? [] : [[config.admin, name]]));
}
