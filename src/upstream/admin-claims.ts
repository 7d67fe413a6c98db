/**
 * Which upstream has which admin. Two with the same admin would make it a matter of chance where a request goes: the
 * one that comes second gets nothing.
 */
export class AdminClaims {
  private readonly names = new Set<string>();
  private readonly holders = new Map<string, string>();

  /** The alias of the upstream that has `admin`. */
  holder(admin: string): string | undefined {
    return this.holders.get(admin);
  }

  /** Claims `admin` for the upstream `name`. Returns the alias of another upstream that has it already. */
  claim(admin: string, name: string): string | undefined {
    const holder = this.holders.get(admin);
    if (holder !== undefined && holder !== name) return holder;
    // An upstream that was removed may still hear from a node.
    if (this.names.has(name)) this.holders.set(admin, name);
    return undefined;
  }

  /**
   * From now on there are only the upstreams `names`; of what was claimed before, only what those `kept` claimed
   * stays. `configured` admins belong to whom the configuration says.
   */
  reset(next: { names: Iterable<string>; kept: ReadonlySet<string>; configured: Iterable<[string, string]> }): void {
    this.names.clear();
    for (const name of next.names) this.names.add(name);
    for (const [admin, name] of this.holders) if (!next.kept.has(name)) this.holders.delete(admin);
    for (const [admin, name] of next.configured) this.holders.set(admin, name);
  }
}
