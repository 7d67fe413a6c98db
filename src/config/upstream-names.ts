/** Words of `routing.plain`, which no upstream can have as its name. */
export const RESERVED_ALIASES: readonly string[] = ["aggregate", "off"];

const LONGEST_ALIAS = 64;

/**
 * A readable alias made of a host, or of what stands before `::` in an admin; good as a path segment and as a metric label
 * whatever that says, and numbered where it is taken or reserved.
 *
 * @param otherwise the alias where nothing of the hint can be used
 */
export function aliasFrom(hint: string, isTaken: (alias: string) => boolean, otherwise = "registry"): string {
  const plain = hint
    .split("::", 1)[0]!
    .replaceAll(/[^A-Za-z0-9_.-]+/g, "-")
    .replaceAll(/^[^A-Za-z0-9]+|-+$/g, "");
  const base = plain === "" ? otherwise : plain;
  let alias = base.slice(0, LONGEST_ALIAS);
  for (let number = 2; RESERVED_ALIASES.includes(alias) || isTaken(alias); number++) {
    alias = `${base.slice(0, LONGEST_ALIAS - 6)}-${number}`;
  }
  return alias;
}

/** A party id whose fingerprint is in lower case: both cases occur and mean the same. */
export function normaliseParty(party: string): string {
  const end = party.lastIndexOf("::");
  return end === -1 ? party : party.slice(0, end) + party.slice(end).toLowerCase();
}
