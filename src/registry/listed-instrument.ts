import type { ListedPage } from "../bodies/page.ts";
import type { Resource } from "../cache/resource.ts";
import type { Entry } from "../sharing/entries.ts";
import type { RegistryMetadata } from "./registry-metadata.ts";

/** Bytes of pages that are looked through for one instrument: some milliseconds, where none of them was taken apart before. */
export const MAX_LOOKED_THROUGH = 256 * 1024;
const MAX_PAGES = 32;

/** An instrument on a page that is stored. */
export interface ListedInstrument {
  /** What the page is the answer of. */
  readonly source: Resource;
  readonly entry: Entry;
  readonly page: ListedPage;
  readonly at: number;
}

/** The page that an instrument is on, among the first ones that are stored, here or in the shared tier, fresh or stale. */
export async function findListed(
  registry: RegistryMetadata,
  admin: string,
  id: string,
): Promise<ListedInstrument | undefined> {
  let pageToken: string | undefined;
  let looked = 0;
  for (let pages = 0; pages < MAX_PAGES && looked < MAX_LOOKED_THROUGH; pages += 1) {
    const source = registry.resource(admin, { operation: "instruments", pageToken });
    const entry = await registry.cache.stored(source);
    if (entry?.status !== 200) return undefined;
    looked += entry.body.length;
    const page = await readPage(registry, entry.body);
    const at = page?.ids.indexOf(id) ?? -1;
    if (at !== -1) return { source, entry, page: page!, at };
    if (page?.nextPageToken === undefined) return undefined;
    pageToken = encodeURIComponent(page.nextPageToken);
  }
  return undefined;
}

async function readPage({ pages, upstream }: RegistryMetadata, body: Buffer): Promise<ListedPage | undefined> {
  try {
    const page = await pages.read(body, upstream.name);
    return typeof page === "string" ? undefined : page;
  } catch {
    // There is too much to read: the instrument is asked for by itself.
    return undefined;
  }
}
