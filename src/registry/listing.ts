import type { IncomingHttpHeaders } from "node:http";
import { LRUCache } from "lru-cache";
import { chainDigest, type ListedPage } from "../bodies/page.ts";
import type { CacheAnswer, Resource } from "../cache/resource.ts";
import type { Instant } from "../clock.ts";
import type { Coordinator } from "../coordination/coordinator.ts";
import { GatewayError } from "../errors.ts";
import { retryAfter } from "../upstream/wire/answer.ts";
import { ListingRungs, PAGE_SIZES, REFUSALS } from "./listing-rungs.ts";
import type { MetadataAddress } from "./metadata-key.ts";
import type { RegistryMetadata, Requester } from "./registry-metadata.ts";

/** Which page of a listing: as it is asked for. */
export interface PageAddress {
  /** Undefined: the registry's own. */
  readonly pageSize: number | undefined;
  /** As issued, not encoded; undefined for the first page. */
  readonly pageToken: string | undefined;
}

/** A page, where it is, and how the cache came by it. */
export interface FoundPage {
  readonly address: PageAddress;
  readonly page: ListedPage;
  readonly answer: CacheAnswer;
}

/** The page that follows another one. */
export interface Following {
  readonly address: PageAddress;
  /**
   * True when the page begins with the last instruments of the one before it. When they are not there, the listing has
   * moved in between, and what comes next cannot be told.
   */
  readonly overlaps: boolean;
}

/** For whom pages are read. */
export interface ListingAsk {
  readonly requester: Requester;
  /** The fields that take part: tracing, and `Cache-Control` where clients are honoured. */
  readonly headers: IncomingHttpHeaders;
  readonly deadline: Instant;
  readonly signal?: AbortSignal | undefined;
  /** Puts a resource in the place of the one that would be asked for. */
  readonly adapt?: (resource: Resource) => Resource;
}

/** How many instruments of the page before an overlapping page repeats. */
export const OVERLAP = 4;

/** Chains whose last digest is remembered, of all registries together. */
const MAX_ISSUED = 10_000;

/** What all listings of a process have found out about how registries want to be asked. */
export class ListingKnowledge {
  readonly sizes: ListingRungs;
  readonly overlaps: ListingRungs;
  private readonly issued = new LRUCache<string, string>({ max: MAX_ISSUED });

  constructor(coordinator: Coordinator) {
    this.sizes = new ListingRungs(coordinator, "page-size");
    this.overlaps = new ListingRungs(coordinator, "page-overlap");
  }

  /** Notes what was last issued for a chain; false when that is what it was already, and nobody needs to be told. */
  isNews(chain: string, digest: string): boolean {
    if (this.issued.get(chain) === digest) return false;
    this.issued.set(chain, digest);
    return true;
  }
}

/**
 * One registry's listing, page by page through the cache, whoever asks and at whatever page size: the same pages for
 * all, at a size that the registry accepts.
 */
export class Listing {
  readonly registry: RegistryMetadata;
  readonly admin: string;
  private readonly knowledge: ListingKnowledge;

  constructor(registry: RegistryMetadata, admin: string, knowledge: ListingKnowledge) {
    this.registry = registry;
    this.admin = admin;
    this.knowledge = knowledge;
  }

  /** The first page. @throws GatewayError 429, 502, 503 or 504 when the registry does not give it */
  async first(ask: ListingAsk): Promise<FoundPage> {
    const begin = Math.min(await this.knowledge.sizes.current(this.admin), PAGE_SIZES.length - 1);
    for (let rung = begin; ; rung++) {
      const address: PageAddress = { pageSize: PAGE_SIZES[rung], pageToken: undefined };
      const answer = await this.ask(address, ask);
      if (REFUSALS.has(answer.status) && rung < PAGE_SIZES.length - 1) continue;
      const found = await this.found(address, answer);
      this.knowledge.sizes.learn(this.admin, rung);
      return found;
    }
  }

  /**
   * The page at an address that a walk has come to.
   *
   * @throws GatewayError as {@link first}; 400 when the registry does not take the token any more
   */
  async at(address: PageAddress, ask: ListingAsk): Promise<FoundPage> {
    const answer = await this.ask(address, ask);
    if (REFUSALS.has(answer.status)) throw this.lostPlace();
    return this.found(address, answer);
  }

  /** The page after `before`, or undefined when that was the last. @throws GatewayError as {@link at} */
  async after(before: FoundPage, ask: ListingAsk): Promise<{ found: FoundPage; following: Following } | undefined> {
    const ladder = this.followings(before);
    if (ladder.length === 1) {
      const [following] = ladder;
      return { found: await this.at(following!.address, ask), following: following! };
    }
    const { overlaps } = this.knowledge;
    for (let rung = await overlaps.current(this.admin); rung < ladder.length; rung++) {
      const following = ladder[rung]!;
      this.issue(before, following.address);
      const answer = await this.ask(following.address, ask);
      if (REFUSALS.has(answer.status) && rung < ladder.length - 1) continue;
      if (REFUSALS.has(answer.status)) throw this.lostPlace();
      overlaps.learn(this.admin, rung);
      return { found: await this.found(following.address, answer), following };
    }
    return undefined;
  }

  /** The 400 for a walk whose place in this listing is gone. */
  lostPlace(): GatewayError {
    return new GatewayError(
      "listing_changed",
      `the listing of the registry "${this.registry.upstream.name}" has changed so that the place to go on from is ` +
        "gone; list again from the beginning, without pageToken",
    );
  }

  /** The 502 for a registry that goes round in circles. */
  endless(): GatewayError {
    return new GatewayError(
      "upstream_invalid",
      `the registry "${this.registry.upstream.name}" repeats its page tokens, so its listing has no end; ` +
        "tell the operator of the gateway",
    );
  }

  /**
   * Ways to ask for the page after `before`, best first. Tokens that are the last id go on after that id whatever
   * comes and goes; tokens that are an index into the list do not: one instrument less before it, and one is passed
   * over. So pages by index are read with an overlap, and the next page has to begin with what was read last: in a page
   * that is larger by the overlap, or in one of the same size where the registry refuses that, and without where it
   * takes no token but its own.
   */
  private followings(before: FoundPage): Following[] {
    const { page, address } = before;
    const token = page.nextPageToken;
    if (token === undefined) return [];
    const index = indexOf(token);
    const start = address.pageToken === undefined ? 0 : indexOf(address.pageToken);
    const isIndex = index !== undefined && start !== undefined && index === start + page.ids.length;
    if (!isIndex || token === page.ids.at(-1) || page.ids.length <= OVERLAP) {
      return [{ address: { pageSize: address.pageSize, pageToken: token }, overlaps: false }];
    }
    const base = baseSize(address);
    const wider = base === undefined ? base : base + OVERLAP;
    const overlapping = String(index - OVERLAP);
    return [
      { address: { pageSize: wider, pageToken: overlapping }, overlaps: true },
      { address: { pageSize: base, pageToken: overlapping }, overlaps: true },
      { address: { pageSize: base, pageToken: token }, overlaps: false },
    ];
  }

  /** A page that was asked for with a token of ours belongs to the page before it like one of the registry's own. */
  private issue(before: FoundPage, address: PageAddress): void {
    const { coordinator, walks, upstream } = this.registry;
    const next = this.resource(address, "client").key;
    const chain = next.chain!;
    const key = this.resource(before.address, "client").key;
    const epoch = coordinator.epochOf(key);
    if (epoch === undefined) return;
    const digest = chainDigest(before.page, epoch);
    const isKnown = coordinator.epochOf(next) !== undefined;
    if (isKnown && !this.knowledge.isNews(`${this.admin}\n${chain}`, digest)) return;
    coordinator.issueChain(this.admin, chain, digest);
    if (upstream.config.urls.length > 1) walks.follow(key.chain, chain);
  }

  private ask(address: PageAddress, { requester, headers, deadline, signal, adapt }: ListingAsk): Promise<CacheAnswer> {
    const resource = this.resource(address, requester);
    const request = { method: "GET", headers, deadline, ...(signal === undefined ? {} : { signal }) } as const;
    return this.registry.cache.respond(adapt === undefined ? resource : adapt(resource), request);
  }

  private resource({ pageSize, pageToken }: PageAddress, requester: Requester): Resource {
    const address: MetadataAddress = {
      operation: "instruments",
      pageSize,
      pageToken: pageToken === undefined ? undefined : encodeURIComponent(pageToken),
    };
    return this.registry.resource(this.admin, address, requester);
  }

  private async found(address: PageAddress, answer: CacheAnswer): Promise<FoundPage> {
    const { name } = this.registry.upstream;
    if (answer.status !== 200) throw failedListing(name, answer);
    const page = await this.registry.pages.read(answer.body!, name);
    if (typeof page === "string") throw unreadableAnswer(name, `a page that cannot be read: ${page}`);
    if (page.nextPageToken !== undefined && page.nextPageToken === address.pageToken) throw this.endless();
    return { address, page, answer };
  }
}

/** The failure that a registry's answer to its listing amounts to. */
export function failedListing(name: string, { status, fields }: CacheAnswer): GatewayError {
  const text = `the registry "${name}" could not be listed: it answered ${status}`;
  if (status === 504) return new GatewayError("upstream_timeout", text);
  if (status !== 429 && status !== 503) return new GatewayError("upstream_invalid", text);
  return new GatewayError("upstream_busy", text, { status, retryAfter: retryAfter(fields) ?? 1 });
}

/** The 502 for an answer that nothing can be made of; `what` it sent. */
export function unreadableAnswer(name: string, what: string): GatewayError {
  return new GatewayError("upstream_invalid", `the registry "${name}" sent ${what}`);
}

/** What `token` is as an index; undefined when it is none. */
function indexOf(token: string): number | undefined {
  return /^(?:0|[1-9][0-9]{0,8})$/.test(token) ? Number(token) : undefined;
}

/** The page size without what an overlapping page has on top. */
function baseSize({ pageSize, pageToken }: PageAddress): number | undefined {
  if (pageSize === undefined || pageToken === undefined) return pageSize;
  return PAGE_SIZES.includes(pageSize) ? pageSize : pageSize - OVERLAP;
}
