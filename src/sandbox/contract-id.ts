import { hashText, mulberry32, randomHex } from "./random.ts";

/** Every contract id of one sample registry begins so: `00` and two bytes that depend on its admin alone. */
function ownPrefix(admin: string): string {
  return `00${randomHex(mulberry32(hashText(admin)), 4)}`;
}

/**
 * The contract id (138 hexadecimal digits, the ledger's layout) that the sample registry of `admin` issues under
 * `label`: the same for the same two texts, and recognised by {@link ownContracts}.
 */
export function contractId(admin: string, label: string): string {
  const random = mulberry32(hashText(`${admin} ${label}`));
  return `${ownPrefix(admin)}${randomHex(random, 60)}ca111220${randomHex(random, 64)}`;
}

/**
 * For the option `contracts`: knows the ids that {@link contractId} issues for `admin` and no others, so that of
 * several sample registries exactly one knows a given id.
 */
export function ownContracts(admin: string): (id: string) => boolean {
  const prefix = ownPrefix(admin);
  return (id) => id.length === 138 && id.startsWith(prefix);
}
