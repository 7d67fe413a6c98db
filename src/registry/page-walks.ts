import { LRUCache } from "lru-cache";

const MAX_WALKS = 10_000;

/**
 * Which pages belong to one walk through a listing, so that they come from the node that began it: nodes of one
 * registry lag behind each other, and a token means the same only where it was issued.
 */
export class PageWalks {
  private readonly walks = new LRUCache<string, string>({ max: MAX_WALKS });
  private begun = 0;

  /** The walk that the page at `chain` continues; a new one for a first page (undefined) and for an unknown token. */
  of(chain: string | undefined): string {
    const known = chain === undefined ? undefined : this.walks.get(chain);
    return known ?? this.begin(chain);
  }

  /** The page at `chain` issued the token of `next`. */
  follow(chain: string | undefined, next: string): void {
    const walk = chain === undefined ? this.walks.get(FIRST) : this.walks.get(chain);
    if (walk !== undefined) this.walks.set(next, walk);
  }

  private begin(chain: string | undefined): string {
    this.begun++;
    const walk = String(this.begun);
    this.walks.set(chain ?? FIRST, walk);
    return walk;
  }
}

/** No token is the empty string, so no chain is. */
const FIRST = "";
