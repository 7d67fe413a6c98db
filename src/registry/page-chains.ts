import { LRUCache } from "lru-cache";

const MAX_CHAINS = 10_000;

/** What is known of the page behind one token. */
interface Chain {
  /** The pagination it belongs to. */
  pagination?: string;
  /** Stands for what the page that issued the token listed then. */
  contents?: string;
  /** The digest under which the token was last issued here. */
  issued?: string;
}

/**
 * How the pages of one registry's listing hang together, by the chains (page size and token) that name them. Bounded:
 * what is forgotten costs a call to another node, or a token that is issued once more.
 */
export class PageChains {
  private readonly chains = new LRUCache<string, Chain>({ max: MAX_CHAINS });
  private begun = 0;

  /**
   * The pagination that the page at `chain` continues; a new one for a first page (undefined) and for an unknown token.
   * Its pages come from the node that began it: nodes of one registry lag behind each other, and a token means the same
   * only where it was issued.
   */
  paginationOf(chain: string | undefined): string {
    const known = this.at(chain ?? FIRST);
    if (chain === undefined || known.pagination === undefined) {
      this.begun++;
      known.pagination = String(this.begun);
    }
    return known.pagination;
  }

  /** The page at `chain` (undefined: a first page) issued the token of `next`. */
  follow(chain: string | undefined, next: string): void {
    const pagination = this.chains.get(chain ?? FIRST)?.pagination;
    if (pagination !== undefined) this.at(next).pagination = pagination;
  }

  /** Whether `contents`, of the page that issued the token, differ from what it listed when it last issued it. */
  hasChanged(chain: string, contents: string): boolean {
    const known = this.at(chain);
    const before = known.contents;
    known.contents = contents;
    return before !== undefined && before !== contents;
  }

  /** Notes what a token was issued under; false when it was so already, and need not be told. */
  isNews(chain: string, digest: string): boolean {
    const known = this.at(chain);
    if (known.issued === digest) return false;
    known.issued = digest;
    return true;
  }

  private at(chain: string): Chain {
    let known = this.chains.get(chain);
    if (known === undefined) {
      known = {};
      this.chains.set(chain, known);
    }
    return known;
  }
}

/** No token is the empty string, so no chain is. */
const FIRST = "";
