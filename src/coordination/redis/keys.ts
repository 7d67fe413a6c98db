import { digestOf } from "../../digest.ts";

/** Written into the key of each entry: a release that reads entries differently does not find the old ones. */
const ENTRY_FORMAT = 3;

/**
 * The keys in Redis. What is in braces is a hash tag: epochs, chains and entries of one partition share a slot of a
 * cluster, so that one script reads them all.
 */
export class Keys {
  private readonly prefix: string;

  constructor(prefix: string) {
    this.prefix = prefix;
  }

  /** Epochs: a hash of scope → epoch. */
  epochs(tag: string): string {
    return `${this.prefix}{${tag}}:e`;
  }

  /** The digest of the page that issued a token. */
  chain(tag: string, chain: string): string {
    return `${this.prefix}{${tag}}:c:${digestOf(chain)}`;
  }

  /** The variants of one resource: a hash of variant → entry. */
  entry(tag: string, id: string): string {
    return `${this.prefix}{${tag}}:${ENTRY_FORMAT}:${digestOf(id)}`;
  }

  lease(name: string): string {
    return `${this.prefix}l:${name}`;
  }

  rateLimit(name: string): string {
    return `${this.prefix}b:${digestOf(name)}`;
  }

  fact(name: string): string {
    return `${this.prefix}f:${digestOf(name)}`;
  }

  /** The replicas alive: a sorted set of id → time of the last beat. */
  get replicas(): string {
    return `${this.prefix}r`;
  }

  /** The one channel that replicas talk on. */
  get channel(): string {
    return `${this.prefix}bus`;
  }
}
