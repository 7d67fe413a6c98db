import { LRUCache } from "lru-cache";

/** A walker over a registry of 100,000 instruments issues 4,000 tokens at the default page size. */
const MAX_CHAINS = 50_000;

/** Which page tokens were issued, and the digest of what came before each. */
export class Chains {
  private readonly digests = new LRUCache<string, string>({ max: MAX_CHAINS });

  digest(partition: string, chain: string): string | undefined {
    return this.digests.get(`${partition}\n${chain}`);
  }

  issue(partition: string, chain: string, digest: string): void {
    this.digests.set(`${partition}\n${chain}`, digest);
  }
}
