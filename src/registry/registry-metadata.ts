import type { Duration } from "../clock.ts";
import type { ListedPages } from "../bodies/listed-pages.ts";
import { chainDigest, type ListedPage } from "../bodies/page.ts";
import type { HttpCache } from "../cache/http-cache.ts";
import type { CachePolicy } from "../cache/resource.ts";
import type { Fetched, FetchRequest, Resource } from "../cache/resource.ts";
import type { Entry } from "../cache/entry.ts";
import type { CacheKey } from "../cache/stores/store.ts";
import type { CacheConfig } from "../config/schema.ts";
import type { Coordinator } from "../coordination/coordinator.ts";
import { filterFields } from "../fields.ts";
import type { CachedOperation } from "../spec/endpoints.ts";
import type { Priority, UpstreamAnswer } from "../upstream/call.ts";
import type { CallTrace } from "../upstream/observer.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { checkAnswer } from "./answer-check.ts";
import { ListingRungs, PAGE_SIZES, REFUSALS } from "./listing-rungs.ts";
import { chainOf, type MetadataAddress, metadataKey, metadataPath } from "./metadata-key.ts";
import { requestFields } from "./metadata-request.ts";
import type { MetadataObserver } from "./observer.ts";
import { PageChanges } from "./page-changes.ts";
import { PageWalks } from "./page-walks.ts";

export interface RegistryMetadataOptions {
  readonly upstream: Upstream;
  readonly cache: HttpCache;
  readonly coordinator: Coordinator;
  readonly observer: MetadataObserver;
  readonly pages: ListedPages;
  /** Follows the calls made for the request in whose course it is asked; undefined where requests are not traced. */
  readonly trace?: (() => CallTrace | undefined) | undefined;
  /** Asked before each fetch from the registry; throws a GatewayError where the process has too much to do for one. */
  readonly admit: () => void;
}

/** Instruments of a page that are stored before anything else may run: two or three milliseconds' worth. */
const FILLED_AT_ONCE = 100;

/** So many of a page are stored one by one: with all of a larger one, a listing would take the whole memory tier. */
const MAX_FILLED = 5_000;

/** Who asks for a resource: clients, or the background walker, whose calls go last. */
export type Requester = "client" | "walker";

/**
 * The cached endpoints of one registry: which resource a request means, how it is cached, and how it is fetched. Used by
 * the routes, the aggregate and the background walker alike.
 */
export class RegistryMetadata {
  readonly upstream: Upstream;
  readonly cache: HttpCache;
  readonly coordinator: Coordinator;
  readonly observer: MetadataObserver;
  readonly trace: (() => CallTrace | undefined) | undefined;
  readonly admit: () => void;
  readonly pages: ListedPages;
  readonly walks = new PageWalks();
  readonly changes = new PageChanges();
  /** Which of {@link pageSizesFrom} the registry accepts, by the size that is asked for by default and its admin. */
  readonly sizes: ListingRungs;
  private readonly policies: Readonly<Record<CachedOperation, CachePolicy>>;

  constructor({ upstream, cache, coordinator, observer, pages, trace, admit }: RegistryMetadataOptions) {
    this.upstream = upstream;
    this.cache = cache;
    this.coordinator = coordinator;
    this.observer = observer;
    this.pages = pages;
    this.trace = trace;
    this.admit = admit;
    this.sizes = new ListingRungs(coordinator, "default-page-size");
    const { cache: config, forwardAuthorization } = upstream.config;
    this.policies = {
      info: cachePolicy(config, "info", forwardAuthorization),
      instruments: cachePolicy(config, "instruments", forwardAuthorization),
      instrument: cachePolicy(config, "instrument", forwardAuthorization),
    };
  }

  /**
   * The resource at `address`.
   *
   * @param admin the registry's admin as it is known now: entries are kept under it, never under the alias
   */
  resource(admin: string, address: MetadataAddress, requester: Requester = "client"): Resource {
    const { pageSize } = this.upstream.config;
    const isDefault = address.operation === "instruments" && address.pageSize === undefined && pageSize !== undefined;
    const sized = isDefault ? { ...address, defaultPageSize: pageSize } : address;
    return new MetadataResource(this, admin, sized, requester);
  }

  policyOf(operation: CachedOperation): CachePolicy {
    return this.policies[operation];
  }
}

class MetadataResource implements Resource {
  readonly key: CacheKey;
  readonly policy: CachePolicy;
  readonly timeout: Duration;
  private readonly registry: RegistryMetadata;
  private readonly admin: string;
  private readonly address: MetadataAddress;
  private readonly requester: Requester;

  constructor(registry: RegistryMetadata, admin: string, address: MetadataAddress, requester: Requester) {
    this.registry = registry;
    this.admin = admin;
    this.address = address;
    this.requester = requester;
    this.key = metadataKey(admin, address);
    this.policy = registry.policyOf(address.operation);
    this.timeout = registry.upstream.config.timeout;
  }

  async fetch(request: FetchRequest): Promise<Fetched> {
    const { upstream, observer } = this.registry;
    const { operation } = this.address;
    this.registry.admit();
    const answer = await this.call(request);
    const problem = checkAnswer(upstream, operation, answer, observer);
    const asOf = answer.status === 200 ? answer.content?.supplyAsOf : undefined;
    if (asOf !== undefined) observer.supplySeen(upstream.name, asOf);
    const unstorable = problem === undefined ? this.pageProblem(answer) : "schema";
    const fetched: Fetched = {
      status: answer.status,
      // Clients read JSON whatever type the upstream gave it; one of them crashes otherwise.
      fields: [...filterFields(answer.fields, (name) => name !== "content-type"), "content-type", "application/json"],
      body: answer.body,
      requestedAt: answer.requestedAt,
      receivedAt: answer.receivedAt,
    };
    return unstorable === undefined ? fetched : { ...fetched, unstorable };
  }

  /**
   * Asks the registry. A page whose size the client leaves open is asked for in the size of the configuration, and in
   * smaller ones where the registry refuses that: as long as a refusal can be about the size.
   */
  private async call(request: FetchRequest): Promise<UpstreamAnswer> {
    const { defaultPageSize, pageToken } = this.address;
    const walk = this.walk();
    if (defaultPageSize === undefined) return this.callWith(this.address.pageSize, request, walk);
    const { sizes } = this.registry;
    const ladder = pageSizesFrom(defaultPageSize);
    const name = `${defaultPageSize} ${this.admin}`;
    const last = ladder.length - 1;
    for (let rung = Math.min(await sizes.current(name), last); ; rung++) {
      const answer = await this.callWith(ladder[rung], request, walk);
      const isRefused = REFUSALS.has(answer.status);
      // A token that is no good is refused at every size.
      if (isRefused && rung < last && (pageToken === undefined || !sizes.isKnown(name))) continue;
      if (answer.status === 200) sizes.learn(name, rung);
      return answer;
    }
  }

  private callWith(
    pageSize: number | undefined,
    request: FetchRequest,
    walk: string | undefined,
  ): Promise<UpstreamAnswer> {
    return this.registry.upstream.call({
      operation: this.address.operation,
      method: "GET",
      path: metadataPath({ ...this.address, pageSize }),
      fields: requestFields(request, this.policy),
      priority: this.priorityOf(request),
      deadline: request.deadline,
      signal: request.signal,
      walk,
      trace: this.registry.trace?.(),
    });
  }

  /** A stored page tells the tokens it issued apart from invented ones, and holds its instruments one by one. */
  stored(entry: Entry, fetched: Fetched): void {
    if (this.address.operation !== "instruments" || entry.status !== 200) return;
    const { pages, upstream } = this.registry;
    const page = pages.read(fetched.body, upstream.name);
    if (page instanceof Promise) {
      // A large page that was confirmed, and is no longer at hand: its tokens were issued when it was received.
      page.then((read) => this.learn(read, entry, fetched)).catch(() => undefined);
    } else this.learn(page, entry, fetched);
  }

  private learn(page: ListedPage | string, entry: Entry, fetched: Fetched): void {
    // What was purged since teaches nothing.
    if (typeof page === "string" || !this.isCurrent(entry)) return;
    const { pages, coordinator, changes, observer, upstream, walks } = this.registry;
    // What is stored may be a copy of what was received: it is what comes again when it is confirmed.
    if (entry.body !== page.body) pages.keep(page.over(entry.body));
    if (page.nextPageToken !== undefined) {
      const chain = chainOf(this.address, encodeURIComponent(page.nextPageToken));
      coordinator.issueChain(this.admin, chain, chainDigest(page, entry.epoch));
      if (changes.notice(chain, chainDigest(page, ""))) observer.chainReset(upstream.name);
      walks.follow(this.chain(), chain);
    }
    this.fill(page, 0, { entry, fetched });
  }

  /** Stores the instruments of a page one by one, from `begin` on: a part now, the rest when other work was done. */
  private fill(page: ListedPage, begin: number, source: { readonly entry: Entry; readonly fetched: Fetched }): void {
    const { entry, fetched } = source;
    if (!this.isCurrent(entry)) return;
    const end = Math.min(page.ids.length, begin + FILLED_AT_ONCE, MAX_FILLED);
    for (let at = begin; at < end; at++) {
      this.registry.cache.fill(this.registry.resource(this.admin, { operation: "instrument", id: page.ids[at]! }), {
        entryOf: fetched,
        body: page.bytes(at),
        maxLifetime: entry.freshUntil - entry.receivedAt,
      });
    }
    if (end < Math.min(page.ids.length, MAX_FILLED)) setImmediate(() => this.fill(page, end, source));
  }

  /** Whether neither the page nor any instrument on it was purged: each purge of one of them ends its epoch. */
  private isCurrent(entry: Entry): boolean {
    return this.registry.coordinator.epochOf(this.key) === entry.epoch;
  }

  private pageProblem({ status, body, content }: UpstreamAnswer): string | undefined {
    if (this.address.operation !== "instruments" || status !== 200 || content === undefined) return undefined;
    const page = this.registry.pages.take(body, content.page);
    if (typeof page === "string") return "page";
    const { nextPageToken } = page;
    if (nextPageToken === undefined || this.address.pageToken === undefined) return undefined;
    const next = chainOf(this.address, encodeURIComponent(nextPageToken));
    return next === this.chain() ? "repeated-token" : undefined;
  }

  private priorityOf({ purpose }: FetchRequest): Priority {
    return this.requester === "walker" ? "walker" : purpose;
  }

  private walk(): string | undefined {
    return this.address.operation === "instruments" ? this.registry.walks.of(this.chain()) : undefined;
  }

  private chain(): string | undefined {
    const { pageToken } = this.address;
    return pageToken === undefined ? undefined : chainOf(this.address, pageToken);
  }
}

/** Sizes to ask for, the configured one first. */
function pageSizesFrom(configured: number): readonly (number | undefined)[] {
  return [configured, ...PAGE_SIZES.filter((size) => size === undefined || size < configured)];
}

function cachePolicy(config: CacheConfig, operation: CachedOperation, forwardAuthorization: boolean): CachePolicy {
  return {
    ttl: config.ttl[operation],
    notFoundTtl: operation === "instrument" ? config.ttl.notFound : undefined,
    maxTtl: config.maxTtl[operation],
    honorUpstream: config.honorUpstream,
    errors: config.errors,
    honorClient: config.honorClient,
    clientFloor: config.clientFloor,
    clientTtl: config.clientTtl,
    staleWhileRevalidate: config.staleWhileRevalidate,
    staleIfError: config.staleIfError,
    forwardRequestHeaders:
      config.forwardRequestHeaders === "*" ? "*" : config.forwardRequestHeaders.map((name) => name.toLowerCase()),
    sharedAuthorization: forwardAuthorization,
  };
}
