import { hash } from "node:crypto";

/**
 * Stands for a name in keys and messages: party ids, tokens and contract ids never leave the process in the clear, and
 * long ones become short. 132 bits.
 */
export function digest(name: string): string {
  return hash("sha256", name, "base64url").slice(0, 22);
}

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
    return `${this.prefix}{${tag}}:c:${digest(chain)}`;
  }

  /** The variants of one resource: a hash of variant → entry. */
  entry(tag: string, id: string): string {
    return `${this.prefix}{${tag}}:${ENTRY_FORMAT}:${digest(id)}`;
  }

  lease(name: string): string {
    return `${this.prefix}l:${name}`;
  }

  rateLimit(name: string): string {
    return `${this.prefix}b:${digest(name)}`;
  }

  fact(name: string): string {
    return `${this.prefix}f:${digest(name)}`;
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
