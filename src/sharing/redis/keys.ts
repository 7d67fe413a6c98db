import { digestOf } from "../../digest.ts";
import type { LimitKind } from "../limits.ts";

/** Written into the key of each entry: a release that reads entries differently does not find the old ones. */
const ENTRY_FORMAT = 6;

/** Written into the key of each table but epochs, which are the same for all releases. */
const TABLE_FORMAT = 2;

/**
 * The keys in Redis. Where values are sealed, what only such gateways can use has keys of its own, with a `!`: those
 * without a seal key, while there are some, have theirs. Epochs and actions are for all. What is in braces is a hash
 * tag: epochs, chains and entries of one partition share a slot of a cluster, so that one script reads them all.
 */
export class Keys {
  private readonly prefix: string;
  private readonly sealed: "" | "!";

  constructor(prefix: string, areSealed = false) {
    this.prefix = prefix;
    this.sealed = areSealed ? "!" : "";
  }

  /** Epochs: a hash of scope → epoch. */
  epochs(tag: string): string {
    return `${this.prefix}{${tag}}:e`;
  }

  /** The digest of the page that issued a token. */
  chain(tag: string, chain: string): string {
    return `${this.prefix}{${tag}}:c${this.sealed}:${digestOf(chain)}`;
  }

  /** The variants of one resource: a hash of variant → entry. */
  entry(tag: string, id: string): string {
    return `${this.prefix}{${tag}}:${ENTRY_FORMAT}${this.sealed}:${digestOf(id)}`;
  }

  lease(name: string): string {
    return `${this.prefix}l${this.sealed}:${name}`;
  }

  /** The calls that a limit counts. Not sealed: Redis counts them itself. */
  limit(kind: LimitKind, id: string): string {
    return `${this.prefix}n:${kind}:${digestOf(id)}`;
  }

  /** The slots of a client's requests that run at once. */
  slots(name: string): string {
    return `${this.prefix}s:${digestOf(name)}`;
  }

  fact(name: string): string {
    return `${this.prefix}f${this.sealed}:${digestOf(name)}`;
  }

  /** What operators did: a table of target → action. */
  get actions(): string {
    return this.table("actions");
  }

  /** What was found for admins: a table of the admin's digest → pin. */
  get pins(): string {
    return this.table(`pins${this.sealed}`);
  }

  /** What operators did, as the audit shows it: a sorted set of id and record. */
  get audit(): string {
    return this.table(`audit${this.sealed}`);
  }

  /** The changes of the catalogue: a table of the last ones, and of the registries that they are of. */
  get changes(): string {
    return this.table(`changes${this.sealed}`);
  }

  /** A larger text that replicas keep, by what stands for its contents. */
  text(name: string): string {
    return `${this.prefix}t${this.sealed}:${name}`;
  }

  /** The replicas alive: a table of id → what it says of itself. */
  get replicas(): string {
    return this.table("replicas");
  }

  /** The replicas of the release before {@link TABLE_FORMAT}: a sorted set of id → time of the last beat. */
  get earlierReplicas(): string {
    return `${this.prefix}r`;
  }

  /** The one channel that replicas talk on. */
  get channel(): string {
    return `${this.prefix}bus`;
  }

  private table(name: string): string {
    return `${this.prefix}${TABLE_FORMAT}:${name}`;
  }
}
