import { createHash } from "node:crypto";
import type { ListedPage } from "../bodies/page.ts";
import type { CacheAnswer } from "../cache/resource.ts";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { Dependencies, EpochsPort } from "../sharing/ports.ts";
import { GatewayError } from "../errors.ts";
import { fieldValues } from "../fields.ts";
import { type FoundPage, Listing } from "./listing.ts";
import type { MetadataRequest, RegistryMetadata } from "./registry-metadata.ts";

/** Bounds of what is read of one listing: beyond them it is too long to be kept. */
const MAX_PAGES = 2_000;
const MAX_BYTES = 32 * 1024 * 1024;
const MAX_TIME: Duration = 300_000;

/** However soon its pages expire, a listing is not read more often than this; until then it stands. */
export const MIN_PERIOD: Duration = 5_000;

/** Bytes of the listings that are read at the same time, of all together. */
const MAX_BYTES_OF_ALL = 64 * 1024 * 1024;

/** Which of the bounds a listing met: of one listing, but for `bytes_of_all`. */
export type ListingBound = "pages" | "bytes" | "instruments" | "time" | "bytes_of_all";

/** What may be read of the listings of a process: the pages of a registry are its own affair, the memory is not. */
export class ReadingBudget {
  readonly clock: Clock;
  /** Of all listings that are being read. */
  bytes = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Begins a listing; to be ended when what was read of it has been let go of. */
  begin(): ReadingShare {
    return new ReadingShare(this);
  }
}

/** What may be read of one listing. */
class ReadingShare {
  private readonly budget: ReadingBudget;
  private readonly endsAt: Instant;
  private pages = 0;
  private bytes = 0;

  constructor(budget: ReadingBudget) {
    this.budget = budget;
    this.endsAt = budget.clock.now() + MAX_TIME;
  }

  /** Notes a page that was read. The bound that it met, if it has to be the last one. */
  take(bytes: number): ListingBound | undefined {
    this.pages += 1;
    this.bytes += bytes;
    this.budget.bytes += bytes;
    if (this.bytes >= MAX_BYTES) return "bytes";
    if (this.pages >= MAX_PAGES) return "pages";
    if (this.budget.clock.now() >= this.endsAt) return "time";
    return this.budget.bytes >= MAX_BYTES_OF_ALL ? "bytes_of_all" : undefined;
  }

  end(): void {
    this.budget.bytes -= this.bytes;
    this.bytes = 0;
  }
}

/** A listing that was read from end to end. */
export interface WholeListing {
  readonly admin: string;
  /** The registry's answer to info, where it gave one. */
  readonly info: CacheAnswer | undefined;
  readonly pages: readonly ListedPage[];
  /** What the pages say about keeping them: each `Cache-Control` once. */
  readonly cacheControl: readonly string[];
  /** Stands for the bytes of all pages. */
  readonly digest: string;
  /** Why the end of the listing is missing; undefined when it is whole. */
  readonly cutShortBy: ListingBound | undefined;
  /** Of the listing, read before the first page: with another one now, none of this may be used. */
  readonly epoch: string;
  /** The soft purges before it, read with the epoch. */
  readonly softEpoch: string;
  /** When the registry answered with the oldest of its pages. */
  readonly asOf: Instant;
  /** The same of the newest of them, and of {@link info}. */
  readonly newestAsOf: Instant;
  readonly infoAsOf: Instant;
  /** When the first of its pages is no longer fresh; in the past where one was stale. */
  readonly freshUntil: Instant;
  /** When the first of its pages may not stand in for a failure of the registry any more. */
  readonly usableUntil: Instant;
}

type ListingTimes = Pick<WholeListing, "admin" | "softEpoch" | "asOf" | "freshUntil" | "usableUntil">;

export interface ReadingOptions {
  readonly clock: Clock;
  /** Made anew for every page, as each has its own deadline. */
  readonly request: () => MetadataRequest;
  /** What it may read; ended by the caller. */
  readonly share: ReadingShare;
}

/** Beyond, a listing is too long to be searched. */
const MAX_INSTRUMENTS = 100_000;

/** What a listing as a whole depends on, the registry's info included. */
function dependenciesOf(admin: string): Dependencies {
  return { partition: admin, scopes: ["all", "list", "pages", "info"] };
}

/** Another one: it was purged. */
export function listingEpoch(epochs: EpochsPort, admin: string): string {
  return epochs.epochOf(dependenciesOf(admin)) ?? "";
}

/** Another one: it was purged softly. */
export function listingSoftEpoch(epochs: EpochsPort, admin: string): string {
  return epochs.softEpochOf(dependenciesOf(admin));
}

/** The times of a listing as they are with the soft purges that it does not know of: it is stale since the first of them. */
export function softened<Times extends ListingTimes>(listing: Times, epochs: EpochsPort, clock: Clock): Times {
  const { admin, softEpoch, asOf, freshUntil, usableUntil } = listing;
  const at = epochs.softPurgedAt(dependenciesOf(admin), softEpoch);
  if (at === undefined) return listing;
  const staleSince = Math.min(freshUntil, Math.max(asOf, clock.now() - Math.max(0, clock.wallNow() - at)));
  const earlier = freshUntil - staleSince;
  return {
    ...listing,
    softEpoch: listingSoftEpoch(epochs, admin),
    freshUntil: staleSince,
    usableUntil: usableUntil - earlier,
  };
}

/**
 * Reads info and every page of a registry through its cache: what is fresh there is taken, and only the rest is asked
 * for. A listing without end is read as far as the share goes; of its pages only what is listed is kept, their bodies
 * are let go.
 *
 * @throws GatewayError what the registry failed with
 */
export async function readWholeListing(
  registry: RegistryMetadata,
  { clock, request, share }: ReadingOptions,
): Promise<WholeListing> {
  const admin = await registry.admin(request());
  const { epochs } = registry.coordinator;
  const [epoch, softEpoch] = [listingEpoch(epochs, admin), listingSoftEpoch(epochs, admin)];
  const listing = new Listing(registry, admin);
  const info = await readInfo(registry, admin, request());
  const infoAsOf = clock.now() - (info?.age ?? 0) * 1000;
  const pages: ListedPage[] = [];
  const cacheControl = new Set<string>();
  const digest = createHash("sha256");
  const tokens = new Set<string>();
  let instruments = 0;
  let freshUntil = Infinity;
  let usableUntil = Infinity;
  let asOf = Infinity;
  let newestAsOf = -Infinity;
  let cutShortBy: ListingBound | undefined;
  let found: FoundPage | undefined = await listing.first(request());
  while (found !== undefined) {
    const { page, answer } = found;
    await listing.unpack(found);
    // What is kept of a page keeps its body.
    pages.push(page.compact());
    digest.update(`${answer.body!.length}:`).update(answer.body!);
    for (const value of fieldValues(answer.fields, "cache-control")) cacheControl.add(value);
    instruments += page.ids.length;
    freshUntil = Math.min(freshUntil, clock.now() + (answer.ttl ?? 0) * 1000);
    usableUntil = Math.min(usableUntil, answer.usableUntil ?? -Infinity);
    const answeredAt = clock.now() - answer.age * 1000;
    asOf = Math.min(asOf, answeredAt);
    newestAsOf = Math.max(newestAsOf, answeredAt);
    const token = page.nextPageToken;
    const bound = share.take(answer.body!.length) ?? (instruments < MAX_INSTRUMENTS ? undefined : "instruments");
    if (token !== undefined) cutShortBy = bound;
    if (cutShortBy !== undefined) break;
    if (token !== undefined && tokens.has(token)) throw listing.endless();
    if (token !== undefined) tokens.add(token);
    found = (await listing.after(found, request()))?.found;
  }
  const [all, sum] = [[...cacheControl], digest.digest("base64url")];
  usableUntil = Math.max(usableUntil, clock.now() + graceOf(registry));
  const times = { asOf, newestAsOf, infoAsOf, freshUntil, usableUntil };
  return { admin, info, pages, cacheControl: all, digest: sum, cutShortBy, epoch, softEpoch, ...times };
}

/** How long a listing stands that was just read, whatever its pages are. */
function graceOf({ upstream }: RegistryMetadata): Duration {
  // In cache-only mode pages are served however stale: so is what is made of them.
  return upstream.refusal() === undefined ? MIN_PERIOD : Math.max(MIN_PERIOD, upstream.config.cache.staleIfError);
}

/** Pages of one registry that are fetched before a client asks for them. */
const MAX_WARM_PAGES = 500;

/**
 * Fills the cache with info and all pages as clients ask for them that name no page size.
 *
 * @throws GatewayError what the registry failed with
 */
export async function warmUp(
  registry: RegistryMetadata,
  { request, share }: Pick<ReadingOptions, "request" | "share">,
): Promise<void> {
  const admin = await registry.admin(request());
  await registry.get(admin, { operation: "info" }, request());
  let pageToken: string | undefined;
  for (let page = 0; page < MAX_WARM_PAGES; page++) {
    const { status, body } = await registry.get(admin, { operation: "instruments", pageToken }, request());
    if (status !== 200 || share.take(body!.length) !== undefined) return;
    const next = await registry.nextToken(body!);
    if (next === undefined || next === pageToken) return;
    pageToken = next;
  }
}

async function readInfo(
  registry: RegistryMetadata,
  admin: string,
  request: MetadataRequest,
): Promise<CacheAnswer | undefined> {
  try {
    const answer = await registry.get(admin, { operation: "info" }, request);
    return answer.status === 200 ? answer : undefined;
  } catch (error) {
    // A listing is worth reading without it.
    if (error instanceof GatewayError) return undefined;
    throw error;
  }
}
