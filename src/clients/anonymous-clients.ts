import { LRUCache } from "lru-cache";
import type { Client, Tier } from "./client.ts";

/**
 * Addresses that are known at once. They have a table of their own: a flood of addresses forgets other anonymous clients,
 * and none that shows a credential. Forgetting costs a client that was quiet nothing: its limits were full again.
 */
const MOST = 50_000;

/** Clients without a credential, by where they call from. */
export class AnonymousClients {
  readonly tier: Tier;
  private readonly clients = new LRUCache<string, Client>({ max: MOST });

  constructor(tier: Tier) {
    this.tier = tier;
  }

  /** @param address as it is counted: of IPv6, the first 64 bits */
  at(address: string): Client {
    const known = this.clients.get(address);
    if (known !== undefined) return known;
    const client: Client = { kind: "anonymous", name: "anonymous", tier: this.tier, id: `address:${address}` };
    this.clients.set(address, client);
    return client;
  }
}
