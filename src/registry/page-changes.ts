import { LRUCache } from "lru-cache";

const MAX_CHAINS = 10_000;

/** Notices when the page that issued a token lists something else than when it last issued it. */
export class PageChanges {
  private readonly digests = new LRUCache<string, string>({ max: MAX_CHAINS });

  /** Whether `digest`, which stands for the page's contents, differs from the one last seen for `chain`. */
  notice(chain: string, digest: string): boolean {
    const before = this.digests.get(chain);
    this.digests.set(chain, digest);
    return before !== undefined && before !== digest;
  }
}
