import type { Client, TierConfig } from "../clients/client.ts";
import type { Clients } from "../clients/clients.ts";
import type { Clock } from "../clock.ts";
import type { ClientUse } from "../observe/metrics/client-traffic.ts";

/** What is reported of a client: its name, never a credential, a digest of one, or an address. */
export interface ClientReport {
  readonly name: string;
  readonly kind: Client["kind"];
  readonly tier: string;
  /** Since the gateway began, refused ones included. */
  readonly requests: number;
  /** By the code of the error. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Requests let in although they were over a limit: the tier has `enforce: false`. */
  readonly spared: number;
  /** Null: not since the gateway began. */
  readonly lastSeen: string | null;
  /** When its keys expire, one for each; null: never. */
  readonly keys?: readonly (string | null)[];
}

/** What `GET /clients` answers. */
export interface ClientsReport {
  /** Empty where `clients` is not configured. */
  readonly tiers: Readonly<Record<string, TierConfig>>;
  /** Those that were seen last first; then those of the keys file that never were. */
  readonly clients: readonly ClientReport[];
}

/** What each client used, as far as this process has seen. */
export function reportClients(clients: Clients | undefined, uses: readonly ClientUse[], clock: Clock): ClientsReport {
  if (clients === undefined) return { tiers: {}, clients: [] };
  const began = clock.wallNow() - clock.now();
  const keys = new Map(clients.keyHolders().map((holder) => [holder.name, holder]));
  const seen = uses.map(({ name, kind, tier, requests, refusals, spared, lastSeen }): ClientReport => {
    const holder = kind === "key" ? keys.get(name) : undefined;
    keys.delete(holder?.name ?? "");
    const use = { name, kind, tier, requests, refusals, spared, lastSeen: new Date(began + lastSeen).toISOString() };
    return holder === undefined ? use : { ...use, keys: holder.expires };
  });
  const unseen = [...keys.values()].map(({ name, tier, expires }): ClientReport => {
    return { name, kind: "key", tier, requests: 0, refusals: {}, spared: 0, lastSeen: null, keys: expires };
  });
  const tiers = Object.fromEntries([...clients.tiers.values()].map(({ name, config }) => [name, config]));
  return { tiers, clients: [...seen, ...unseen] };
}
