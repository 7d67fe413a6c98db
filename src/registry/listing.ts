import { chainDigest, type ListedPage } from "../bodies/page.ts";
import type { CacheAnswer } from "../cache/resource.ts";
import { GatewayError } from "../errors.ts";
import { type Fields, retryAfter } from "../fields.ts";
import type { MetadataAddress } from "./metadata-key.ts";
import { isRefusal, PAGE_SIZES } from "./page-size-negotiation.ts";
import { type NextPage, nextPages, type PageAddress } from "./pagination.ts";
import type { MetadataRequest, RegistryMetadata } from "./registry-metadata.ts";

/** A page, where it is, and how the cache came by it. */
export interface FoundPage {
  readonly address: PageAddress;
  readonly page: ListedPage;
  readonly answer: CacheAnswer;
}

/**
 * One registry's listing, page by page through the cache: the same pages for all clients, whatever page size they ask
 * for, at a size that the registry accepts.
 */
export class Listing {
  readonly registry: RegistryMetadata;
  readonly admin: string;

  constructor(registry: RegistryMetadata, admin: string) {
    this.registry = registry;
    this.admin = admin;
  }

  /** The first page. @throws GatewayError 429, 502, 503 or 504 when the registry does not give it */
  async first(request: MetadataRequest): Promise<FoundPage> {
    const { choice, answer } = await this.registry.negotiations.listingSize.negotiate(
      this.admin,
      PAGE_SIZES,
      (pageSize) => this.get({ pageSize, pageToken: undefined }, request),
    );
    return this.found({ pageSize: choice, pageToken: undefined }, answer);
  }

  /**
   * The page at an address that a pagination has come to.
   *
   * @throws GatewayError as {@link first}; 400 when the registry does not take the token any more
   */
  async at(address: PageAddress, request: MetadataRequest): Promise<FoundPage> {
    const answer = await this.get(address, request);
    if (isRefusal(answer)) throw this.lostPosition();
    return this.found(address, answer);
  }

  /** The page after `before`, or undefined when that was the last. @throws GatewayError as {@link at} */
  async after(
    before: FoundPage,
    request: MetadataRequest,
  ): Promise<{ readonly found: FoundPage; readonly next: NextPage } | undefined> {
    const candidates = nextPages(before.page, before.address);
    const [only, another] = candidates;
    if (only === undefined) return undefined;
    if (another === undefined) return { found: await this.at(only.address, request), next: only };
    const { overlap } = this.registry.negotiations;
    const { choice, answer } = await overlap.negotiate(this.admin, candidates, ({ address }) => {
      this.issue(before, address);
      return this.get(address, request);
    });
    if (isRefusal(answer)) throw this.lostPosition();
    return { found: await this.found(choice.address, answer), next: choice };
  }

  /** Has the cache know the instruments of a fresh page one by one, as it does where the page was fetched here. */
  async unpack({ address, answer, page }: FoundPage): Promise<void> {
    if (answer.outcome !== "hit") return;
    const source = this.registry.resource(this.admin, metadataAddress(address));
    const entry = await this.registry.cache.stored(source);
    if (entry?.body === page.body) source.unpack(entry, page);
  }

  /** The 400 for a pagination whose position in this listing is gone. */
  lostPosition(): GatewayError {
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
        "report it to the gateway's operator",
    );
  }

  /** A page that was asked for with a token of ours belongs to the page before it like one of the registry's own. */
  private issue(before: FoundPage, address: PageAddress): void {
    const { coordinator, chains } = this.registry;
    const next = this.registry.resource(this.admin, metadataAddress(address)).key;
    const key = this.registry.resource(this.admin, metadataAddress(before.address)).key;
    const chain = next.chain!;
    const epoch = coordinator.epochs.epochOf(key);
    if (epoch === undefined) return;
    const digest = chainDigest(before.page.parts, epoch);
    const isKnown = coordinator.epochs.epochOf(next) !== undefined;
    if (!chains.isNewlyIssued(chain, digest) && isKnown) return;
    coordinator.chains.issueChain(this.admin, chain, digest);
    chains.follow(key.chain, chain);
  }

  private get(address: PageAddress, request: MetadataRequest): Promise<CacheAnswer> {
    return this.registry.get(this.admin, metadataAddress(address), request);
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

function metadataAddress({ pageSize, pageToken }: PageAddress): MetadataAddress {
  const encoded = pageToken === undefined ? undefined : encodeURIComponent(pageToken);
  return { operation: "instruments", pageSize, pageToken: encoded };
}

/** The failure that a registry's answer to its listing amounts to. */
export function failedListing(name: string, answer: CacheAnswer): GatewayError {
  return failureOf(`the registry "${name}" could not be listed: it answered ${answer.status}`, answer);
}

/** The failure that a registry's answer amounts to, in these words. */
export function failureOf(
  text: string,
  { status, fields }: { readonly status: number; readonly fields: Fields },
): GatewayError {
  if (status === 504) return new GatewayError("upstream_timeout", text);
  if (status !== 429 && status !== 503) return new GatewayError("upstream_invalid", text);
  return new GatewayError("upstream_busy", text, { status, retryAfter: retryAfter(fields) ?? 1 });
}

/** The 502 for an answer that nothing can be made of; `what` it sent. */
export function unreadableAnswer(name: string, what: string): GatewayError {
  return new GatewayError("upstream_invalid", `the registry "${name}" sent ${what}`);
}
