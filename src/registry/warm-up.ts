import type { ListingAsk } from "./listing.ts";
import type { MetadataAddress } from "./metadata-key.ts";
import type { RegistryMetadata } from "./registry-metadata.ts";
import type { WalkShare } from "./walk-budget.ts";

/** Pages of one registry that are fetched before anybody asks for them. */
const MAX_PAGES = 500;

export interface WarmUpOptions {
  /** Made anew for every page, as each has its own deadline. */
  readonly ask: () => ListingAsk;
  /** What it may read. */
  readonly share: WalkShare;
}

/**
 * Fills the cache with info and all pages as clients ask for them that name no page size. Never rejects: what cannot be
 * had now is fetched when it is asked for.
 */
export async function warmUp(registry: RegistryMetadata, { ask, share }: WarmUpOptions): Promise<void> {
  const { upstream } = registry;
  try {
    const first = ask();
    const admin = upstream.admin ?? (await upstream.learnAdmin(first.deadline, first.signal));
    await fetchInto(registry, admin, { operation: "info" }, ask());
    let pageToken: string | undefined;
    for (let page = 0; page < MAX_PAGES; page++) {
      const body = await fetchInto(registry, admin, { operation: "instruments", pageToken }, ask());
      if (body === undefined || !share.take(body.length)) return;
      const listed = await registry.pages.read(body, upstream.name);
      if (typeof listed === "string" || listed.nextPageToken === undefined) return;
      const next = encodeURIComponent(listed.nextPageToken);
      if (next === pageToken) return;
      pageToken = next;
    }
  } catch {
    // The upstream's own metrics and log lines say what is wrong with it.
  }
}

async function fetchInto(
  registry: RegistryMetadata,
  admin: string,
  address: MetadataAddress,
  { headers, deadline, signal }: ListingAsk,
): Promise<Buffer | undefined> {
  const resource = registry.resource(admin, address, "walker");
  const request = { method: "GET", headers, deadline, ...(signal === undefined ? {} : { signal }) } as const;
  const answer = await registry.cache.respond(resource, request);
  return answer.status === 200 ? answer.body : undefined;
}
