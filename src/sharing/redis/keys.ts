import { hash } from "node:crypto";
import type { SharedKey } from "../ports.ts";

/** Format of all that is stored: a release that reads or writes otherwise has keys of its own. */
const FORMAT = 1;

/** Longest name that stands in a key as it is. A longer one, such as a page token, is digested. */
const LONGEST_NAME = 100;

/** Names of the keys and of the channel in Redis. `{party}` is a hash tag: a registry's keys lie on one node of a cluster. */
export class Keys {
  private readonly base: string;

  constructor(prefix: string) {
    this.base = `${prefix}${FORMAT}:`;
  }

  entry({ party, name }: SharedKey): string {
    return `${this.base}{${party}}:entry:${shortened(name)}`;
  }

  lease({ party, name }: SharedKey): string {
    return `${this.base}{${party}}:lease:${shortened(name)}`;
  }

  /** A hash of slots → calls. */
  limit(key: string): string {
    return `${this.base}calls:${shortened(key)}`;
  }

  /** A hash of party → epoch. */
  get epochs(): string {
    return `${this.base}epochs`;
  }

  /** A sorted set of replicas by the time of their last beat. */
  get replicas(): string {
    return `${this.base}replicas`;
  }

  /** The channel of purges. */
  get channel(): string {
    return `${this.base}purges`;
  }
}

function shortened(name: string): string {
  return name.length <= LONGEST_NAME ? name : `#${hash("sha256", name, "base64url")}`;
}
