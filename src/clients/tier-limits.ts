import { LRUCache } from "lru-cache";
import { type BucketLevel, hasToken, refill } from "../coordination/gcra.ts";
import type { Instant } from "../clock.ts";
import type { Client, Standing, TierConfig } from "./client.ts";
import { type Quota, Standings } from "./standings.ts";

/** Clients of one tier whose buckets are kept, those with credentials and those without apart. */
const MAX_CLIENTS = 50_000;

/** A bucket as one process counts it: exact where it is alone, else a lower bound of what is shared. */
export interface CountedLevel extends BucketLevel {
  /** Tokens granted here that what is shared was not told of; `missing` does not have them. */
  spent: number;
  /** Known to be empty until then. */
  refusedUntil: Instant;
  /** What was granted while what is shared was away. */
  share: ShareLevel | undefined;
}

/** The level of this process's share of a bucket. */
export interface ShareLevel extends BucketLevel {
  /** Of `missing`, so many tokens are known to what is shared, or were missing when it went away. */
  told: number;
}

/** A request that waits for its tokens. */
export interface Waiting {
  /** It draws from so many buckets. */
  readonly needed: number;
  readonly decide: (isGranted: boolean | undefined) => void;
}

/** The buckets of one client. */
export interface ClientBuckets {
  readonly first: CountedLevel;
  /** Undefined until the client sends a POST. */
  second: CountedLevel | undefined;
  /** Undefined: what is shared is not being asked. */
  waiting: Waiting[] | undefined;
}

export function newLevel(now: Instant): CountedLevel {
  return { missing: 0, at: now, spent: 0, refusedUntil: 0, share: undefined };
}

/** What the limits of one tier come to, and the buckets of its clients. */
export class TierLimits {
  /** The tier and its numbers. Where they stay over a reload, so does what was counted. */
  readonly signature: string;
  /** Of all requests, then of POSTs alone; either may be left out. */
  readonly quotas: readonly Quota[];
  readonly standings: Standings;
  /** How many of the buckets, from the first on, a request draws from that is no POST. */
  private readonly neededByAll: number;
  private readonly known = new ClientTable();
  private readonly anonymous = new ClientTable();

  constructor(name: string, config: TierConfig) {
    this.signature = signatureOf(name, config);
    const quotas = [quotaOf("requests", config), quotaOf("posts", config.posts)];
    this.quotas = quotas.filter((quota) => quota !== undefined);
    this.neededByAll = quotas[0] === undefined ? 0 : 1;
    this.standings = new Standings(this.quotas);
  }

  /** From how many buckets a request draws. */
  neededBy(isPost: boolean): number {
    return isPost ? this.quotas.length : this.neededByAll;
  }

  of({ kind, id }: Client, now: Instant): ClientBuckets {
    return (kind === "anonymous" ? this.anonymous : this.known).of(id, now);
  }

  /** Takes a token out of each of the buckets, exactly, for a process that is alone. */
  take(client: ClientBuckets, needed: number, now: Instant): Standing {
    const [quota, other] = [this.quotas[0]!, this.quotas[1]];
    const { first } = client;
    refill(first, quota.interval, now);
    const hasFirst = hasToken(first.missing, quota.burst);
    if (needed === 1 || other === undefined) {
      if (hasFirst) first.missing += 1;
      return this.standings.ofOne(quota, first.missing, !hasFirst);
    }
    const second = (client.second ??= newLevel(now));
    refill(second, other.interval, now);
    const hasBoth = hasFirst && hasToken(second.missing, other.burst);
    if (hasBoth) {
      first.missing += 1;
      second.missing += 1;
    }
    const fillings = [
      { bucket: quota, missing: first.missing },
      { bucket: other, missing: second.missing },
    ];
    return this.standings.ofAll(fillings, !hasBoth);
  }
}

/** Clients by id; when there are too many, those seen longest ago are forgotten. */
class ClientTable {
  /** Made when it is needed: it takes its room at once. */
  private clients: LRUCache<string, ClientBuckets> | undefined;

  of(id: string, now: Instant): ClientBuckets {
    const clients = (this.clients ??= new LRUCache({ max: MAX_CLIENTS }));
    let client = clients.get(id);
    if (client === undefined) {
      client = { first: newLevel(now), second: undefined, waiting: undefined };
      clients.set(id, client);
    }
    return client;
  }
}

/** Says the same of two tiers only where their buckets are the same. */
export function signatureOf(name: string, { requests, per, burst, posts }: TierConfig): string {
  return [name, requests, per, burst, posts?.requests, posts?.per, posts?.burst].join(" ");
}

function quotaOf(
  name: Quota["name"],
  rate: Pick<TierConfig, "requests" | "per" | "burst"> | undefined,
): Quota | undefined {
  if (rate?.requests === undefined) return undefined;
  const { requests, per, burst = requests } = rate;
  return { name, requests, per, burst, interval: per / requests };
}
