/**
 * Which upstream has which admin. Two with the same admin would make it a matter of chance where a request goes: the one
 * whose configuration names it has it; where none does, none of those that learned it may use it.
 */
export class AdminClaims {
  private names: ReadonlySet<string> = new Set();
  private configured: ReadonlyMap<string, string> = new Map();
  /** Those that learned an admin from their nodes, in the order in which they did. */
  private readonly learned = new Map<string, Set<string>>();
  private onContest: (admin: string, claimants: readonly string[]) => void = () => undefined;

  /** The alias of the upstream that has `admin`, or the first of those that claim it. */
  holder(admin: string): string | undefined {
    const [first] = this.learned.get(admin) ?? [];
    return this.configured.get(admin) ?? first;
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
    const claimants = this.note(admin, name);
    if (claimants.size < 2) return undefined;
    const all = [...claimants].map((each) => `"${each}"`).join(" and ");
    return `upstreams ${all} both name the admin ${JSON.stringify(admin)}; set admin for the right one`;
  }

  /**
   * From now on there are only the upstreams `names`; of what was learned before, only what those `kept` learned stays.
   * `configured` admins belong to whom the configuration says. `onContest` is called with those that had an admin when
   * another one claims it too.
   */
  reset(next: {
    names: Iterable<string>;
    kept: ReadonlySet<string>;
    configured: Iterable<[string, string]>;
    onContest: (admin: string, claimants: readonly string[]) => void;
  }): void {
    this.names = new Set(next.names);
    this.configured = new Map(next.configured);
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
    const others = [...claimants];
    claimants.add(name);
    this.learned.set(admin, claimants);
    if (others.length > 0) this.onContest(admin, others);
    return claimants;
  }
}
