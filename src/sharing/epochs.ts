import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Dependencies } from "./ports.ts";

/**
 * Stands for the last purge of one scope: `<count>.<random>`. The count orders the epochs of a scope (a later purge has a
 * higher one), the random part distinguishes purges made at the same time by replicas that could not see each other.
 */
export type Epoch = string;

/** The epochs of one partition. A scope without an epoch of its own goes by `base`. */
export interface EpochSet {
  readonly base: Epoch;
  readonly scopes: ReadonlyMap<string, Epoch>;
}

/** Stands for the base among scopes. */
export const BASE = "=";

/** A purge that was noted: the scope ({@link BASE} where the scopes became too many) and its epoch. */
export interface Raised {
  readonly scope: string;
  readonly epoch: Epoch;
}

/**
 * Before a scope, it names what is purged softly of it: such an epoch has the time (`@` and Unix ms), and entries of older
 * ones are stale since then. They are announced, kept and mended as those of scopes are.
 */
const SOFT = "~";

export function softScope(scope: string): string {
  return SOFT + scope;
}

function isSoft(scope: string): boolean {
  return scope.startsWith(SOFT);
}

/** When a soft purge was, Unix ms; -Infinity where its epoch does not say. */
function softPurgeTime(epoch: Epoch): number {
  const at = epoch.indexOf("@");
  return at === -1 ? -Infinity : Number(epoch.slice(at + 1)) || -Infinity;
}

/** More scopes with an epoch of their own than this in one partition become one epoch for the whole partition. */
const MAX_SCOPES = 256;

/** More partitions than this with epochs of their own become one epoch for everything: more than Redis is followed for. */
const MAX_PARTITIONS = 32_768;

/** A listing of 100,000 instruments issues 4,000 tokens at the default page size. */
const MAX_CHAINS = 50_000;

interface Share {
  base: Epoch;
  readonly scopes: Map<string, Epoch>;
  /** How many of them are no soft ones. */
  hard: number;
  /** The part of the epoch that every entry of the partition shares; made when needed. */
  prefix: string | undefined;
}

/** What is known of a token: what stands for the pages before it, and after how many doubts it was learned. */
interface Issued {
  readonly digest: string;
  readonly turn: number;
}

/** No epoch has a count beyond this. */
const MAX_COUNT = 2 ** 52;

/** So many purges of one scope there never are. */
const REACHABLE = 2 ** 48;

/** Whether `text` has the form of an epoch: count, random part, and the time of a soft purge. */
export function isEpoch(text: string): boolean {
  return /^\d{1,16}\.[\w-]{1,32}(?:@\d{1,16})?$/.test(text) && isReachable(epochCount(text));
}

/** How many purges came before this epoch; -1 for what is none. */
export function epochCount(epoch: Epoch): number {
  const count = Number.parseInt(epoch, 10);
  return count >= 0 && count <= MAX_COUNT ? count : -1;
}

/** A new epoch with this count; no two are ever equal. */
function newEpoch(count: number): Epoch {
  return `${count}.${randomBytes(9).toString("base64url")}`;
}

/**
 * An epoch that is newer than both; `other` may be foreign, and counts as far as it has a count that purges can reach:
 * an epoch beyond all counting could never be followed by another.
 */
export function epochAfter(ours: Epoch | undefined, other: string): Epoch {
  const theirs = epochCount(other);
  return newEpoch(Math.max(ours === undefined ? -1 : epochCount(ours), isReachable(theirs) ? theirs : -1) + 1);
}

function isReachable(count: number): boolean {
  return count >= 0 && count < REACHABLE;
}

/** Names an issued page token among those of all partitions. */
export function chainName(partition: string, chain: string): string {
  return `${partition}\n${chain}`;
}

/**
 * The epochs as this process knows them, of all partitions and of those scopes purged in every partition at once; and
 * which page tokens were issued, with a digest of the pages before each.
 *
 * What was never purged costs no memory, and what is forgotten when a bound is reached is purged with it: forgetting an
 * epoch must never bring an entry back.
 */
export class Epochs {
  /** Changes with every soft purge that this process learns of; 0: none yet. */
  softVersion = 0;
  private initial = newEpoch(0);
  private readonly everywhere: Share = newShare(this.initial);
  private untouched: Share = newShare(this.initial);
  private readonly shares = new Map<string, Share>();
  // A size of one each, not `max`, which takes the memory of all at the start: milliseconds and a megabyte.
  private readonly chains = new LRUCache<string, Issued>({ maxSize: MAX_CHAINS, sizeCalculation: () => 1 });
  private chainTurn = 0;

  /** See {@link EpochsPort.epochOf}. */
  epochOf({ partition, scopes, chain }: Dependencies): string | undefined {
    const epoch = this.scopesEpoch(partition, scopes);
    if (chain === undefined) return epoch;
    const digest = this.chainDigest(partition, chain);
    return digest === undefined ? undefined : `${epoch}#${digest}`;
  }

  /** See {@link ChainsPort.issueChain}. */
  issueChain(partition: string, chain: string, digest: string): void {
    this.chains.set(chainName(partition, chain), { digest, turn: this.chainTurn });
  }

  /** The digest of an issued token; undefined as well where it is doubted. */
  chainDigest(partition: string, chain: string): string | undefined {
    const issued = this.chains.get(chainName(partition, chain));
    if (issued === undefined) return undefined;
    return issued.turn < this.chainTurn && this.canAsk(partition) ? undefined : issued.digest;
  }

  /** The same, doubted or not. */
  lastChainDigest(partition: string, chain: string): string | undefined {
    return this.chains.get(chainName(partition, chain))?.digest;
  }

  /** Doubts the digests of all tokens issued until now, where others can be asked for them. */
  doubtChains(): void {
    this.chainTurn += 1;
  }

  /** Whether others can be asked now what they know of a partition. */
  protected canAsk(_partition: string): boolean {
    return false;
  }

  private scopesEpoch(partition: string, scopes: readonly string[]): string {
    const share = this.shares.get(partition) ?? this.untouched;
    share.prefix ??= `${this.everywhere.base}/${share.base}`;
    if (share.hard === 0 && this.everywhere.hard === 0) return share.prefix;
    let epoch = share.prefix;
    for (const scope of scopes) {
      const own = share.scopes.get(scope);
      if (own !== undefined) epoch += `,${own}`;
      const common = this.everywhere.scopes.get(scope);
      if (common !== undefined) epoch += `;${common}`;
    }
    return epoch;
  }

  /** See {@link EpochsPort.softEpochOf}. */
  softEpochOf(dependencies: Dependencies): string {
    return this.softVersion === 0 ? "" : this.softEpochs(dependencies).join(",");
  }

  /** See {@link EpochsPort.softPurgedAt}. */
  softPurgedAt(dependencies: Dependencies, since: string): number | undefined {
    const known = since.split(",");
    const unknown = this.softEpochs(dependencies).filter((epoch) => !known.includes(epoch));
    return unknown.length === 0 ? undefined : Math.min(...unknown.map(softPurgeTime));
  }

  private softEpochs({ partition, scopes }: Dependencies): Epoch[] {
    const shares = [this.shares.get(partition) ?? this.untouched, this.everywhere];
    return scopes.flatMap((scope) => shares.flatMap((share) => share.scopes.get(softScope(scope)) ?? []));
  }

  /** The epochs of `partition` (undefined: those of every partition at once) as an entry stored now depends on them. */
  read(partition: string | undefined): EpochSet {
    return partition === undefined ? this.everywhere : (this.shares.get(partition) ?? this.untouched);
  }

  /** Gives each of `scopes` a new epoch at `time` (Unix ms), higher than its last. Returns what is to be announced. */
  raise(partition: string | undefined, scopes: readonly string[], time: number): readonly Raised[] {
    const share = this.own(partition);
    const added = scopes.filter((scope) => !share.scopes.has(scope));
    if (share.scopes.size + added.length > MAX_SCOPES) {
      // What is purged softly stays, whatever else becomes stale with it: that one scope is beyond the bound.
      if (scopes.every(isSoft)) return this.raiseEach(share, [softScope("all")], time);
      const base = newEpoch(epochCount(share.base) + 1);
      this.replace(partition, { base, scopes: new Map() });
      return [{ scope: BASE, epoch: base }];
    }
    return this.raiseEach(share, scopes, time);
  }

  private raiseEach(share: Share, scopes: readonly string[], time: number): readonly Raised[] {
    return scopes.map((scope) => {
      const last = share.scopes.get(scope);
      const count = last === undefined ? 1 : epochCount(last) + 1;
      const epoch = isSoft(scope) ? `${newEpoch(count)}@${Math.floor(time)}` : newEpoch(count);
      this.set(share, scope, epoch);
      return { scope, epoch };
    });
  }

  /** Takes over one epoch from elsewhere. */
  put(partition: string | undefined, scope: string, epoch: Epoch): void {
    this.set(this.own(partition), scope, epoch);
  }

  /** Takes over all epochs of a partition from elsewhere. */
  replace(partition: string | undefined, set: EpochSet): void {
    const share = this.own(partition);
    share.base = set.base;
    share.scopes.clear();
    share.hard = 0;
    for (const [scope, epoch] of set.scopes) this.set(share, scope, epoch);
    if (partition === undefined) this.dropPrefixes();
    else share.prefix = undefined;
  }

  /** Gives everything of the partition a new epoch, and remembers no more of it than that. */
  renew(partition: string): void {
    this.replace(partition, { base: newEpoch(0), scopes: new Map() });
  }

  private set(share: Share, scope: string, epoch: Epoch): void {
    if (isSoft(scope)) this.softVersion += 1;
    else if (!share.scopes.has(scope)) share.hard += 1;
    share.scopes.set(scope, epoch);
  }

  private own(partition: string | undefined): Share {
    if (partition === undefined) return this.everywhere;
    let share = this.shares.get(partition);
    if (share === undefined) {
      if (this.shares.size >= MAX_PARTITIONS) this.forget();
      share = newShare(this.initial);
      this.shares.set(partition, share);
    }
    return share;
  }

  private forget(): void {
    this.shares.clear();
    this.initial = newEpoch(0);
    this.untouched = newShare(this.initial);
  }

  private dropPrefixes(): void {
    this.untouched.prefix = undefined;
    for (const share of this.shares.values()) share.prefix = undefined;
  }
}

function newShare(base: Epoch): Share {
  return { base, scopes: new Map(), hard: 0, prefix: undefined };
}
