import type { IncomingHttpHeaders } from "node:http";
import { LRUCache } from "lru-cache";
import type { ListedPages } from "../bodies/page.ts";
import type { HttpCache } from "../cache/http-cache.ts";
import type { CacheAnswer, CachePolicy, Resource } from "../cache/resource.ts";
import type { AbortSignalLike, Clock, Instant } from "../clock.ts";
import type { CacheConfig } from "../config/schema.ts";
import type { Coordinator } from "../sharing/ports.ts";
import { cachedRecord, type CachedOperation, forEachCached, type Operation } from "../spec/operations.ts";
import type { CallTrace } from "../upstream/observer.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { ExtraPathResource } from "./extra-path-resource.ts";
import type { MetadataAddress } from "./metadata-key.ts";
import { MetadataResource } from "./metadata-resource.ts";
import { PageSizeNegotiation } from "./page-size-negotiation.ts";

/** Is notified of what registries say and how they change; for metrics. Upstreams are named by alias. Must not throw. */
export interface MetadataObserver {
  /** An answer breaks the published schema. */
  schemaViolated(upstream: string, operation: Operation): void;
  /** An answer says that supplies hold as of this moment (Unix time in milliseconds), the newest it names. */
  supplySeen(upstream: string, asOf: number): void;
}

export interface RegistryMetadataOptions {
  readonly upstream: Upstream;
  readonly cache: HttpCache;
  readonly coordinator: Pick<Coordinator, "epochs" | "chains" | "facts">;
  readonly observer: MetadataObserver;
  readonly pages: ListedPages;
  /** Follows the calls made for the request in whose course it is asked; undefined where requests are not traced. */
  readonly trace?: (() => CallTrace | undefined) | undefined;
  /** Asked before each fetch from the registry; throws a GatewayError where the process has too much to do for one. */
  readonly admit: () => void;
}

/** Who asks for a resource: clients, or the gateway itself in the background, whose calls go last. */
export type Requester = "client" | "background";

/** For whom something is got, and how long that may take. */
export interface MetadataRequest {
  readonly requester: Requester;
  /** The fields that take part: tracing, and `Cache-Control` where clients are honoured. */
  readonly headers: IncomingHttpHeaders;
  readonly deadline: Instant;
  readonly signal?: AbortSignalLike | undefined;
}

/** What has to be found out about the pages of a registry. */
interface Negotiations {
  /** The size that pages are asked for in where the client names none; by that size and the admin. */
  readonly defaultSize: PageSizeNegotiation;
  /** The size that {@link Listing} asks for, and how its pages overlap; by admin. */
  readonly listingSize: PageSizeNegotiation;
  readonly overlap: PageSizeNegotiation;
}

/** An age no entry reaches: a request that names one takes what is fresh, but nothing stale (RFC 9111 §5.2.1.1). */
const FRESH = { "cache-control": "max-age=31536000" };

/**
 * The cached endpoints of one registry: which resource a request means, how it is cached, and how it is fetched. Used by
 * the routes, the aggregate and the background reader alike.
 */
export class RegistryMetadata {
  readonly upstream: Upstream;
  readonly cache: HttpCache;
  readonly coordinator: Pick<Coordinator, "epochs" | "chains" | "facts">;
  readonly observer: MetadataObserver;
  readonly trace: (() => CallTrace | undefined) | undefined;
  readonly admit: () => void;
  readonly pages: ListedPages;
  readonly chains = new PageChains();
  readonly negotiations: Negotiations;
  readonly extraPathPolicy: CachePolicy;
  private readonly policies: Readonly<Record<Requester, Readonly<Record<CachedOperation, CachePolicy>>>>;

  constructor({ upstream, cache, coordinator, observer, pages, trace, admit }: RegistryMetadataOptions) {
    this.upstream = upstream;
    this.cache = cache;
    this.coordinator = coordinator;
    this.observer = observer;
    this.pages = pages;
    this.trace = trace;
    this.admit = admit;
    this.negotiations = {
      defaultSize: new PageSizeNegotiation(coordinator.facts, "default-page-size"),
      listingSize: new PageSizeNegotiation(coordinator.facts, "page-size"),
      overlap: new PageSizeNegotiation(coordinator.facts, "page-overlap"),
    };
    this.extraPathPolicy = extraPathPolicyOf(upstream);
    this.policies = { client: policiesOf(upstream, {}), background: policiesOf(upstream, FOLLOWED) };
  }

  /**
   * The resource at `address`.
   *
   * @param admin the registry's admin as it is known now: entries are kept under it, never under the alias
   */
  resource(admin: string, address: MetadataAddress, requester: Requester = "client"): MetadataResource {
    const { pageSize } = this.upstream.config;
    const isPage = cachedRecord(address.operation).address === "page";
    const isDefault = isPage && address.pageSize === undefined && pageSize !== undefined;
    const sized = isDefault ? { ...address, defaultPageSize: pageSize } : address;
    return new MetadataResource(this, admin, sized, requester);
  }

  /** One of `extraPaths`, without a query; `admin` as in {@link resource}. */
  extraPath(admin: string, path: string): Resource {
    return new ExtraPathResource(this, admin, path);
  }

  /** What the cache has of the resource at `address`, or gets. Rejects with a GatewayError. */
  get(
    admin: string,
    address: MetadataAddress,
    { requester, headers, deadline, signal }: MetadataRequest,
  ): Promise<CacheAnswer> {
    const resource = this.resource(admin, address, requester);
    return this.cache.respond(resource, { method: "GET", headers, deadline, signal });
  }

  /**
   * The registry's admin, waited for where no node has named it yet.
   *
   * @throws GatewayError as {@link Upstream.learnAdmin}, and 503 where it is disabled: what is stored may be another one's
   */
  async admin(limits: Pick<MetadataRequest, "deadline" | "signal">): Promise<string> {
    if (this.upstream.isDisabled) throw this.upstream.whyNone();
    // A signal is made when it is read: a known admin needs none.
    return this.upstream.admin ?? this.upstream.learnAdmin(limits.deadline, limits.signal);
  }

  /** A request of the gateway itself: after all others, and for what is fresh. */
  backgroundRequest(clock: Clock, signal: AbortSignalLike): MetadataRequest {
    return { requester: "background", headers: FRESH, deadline: clock.now() + this.upstream.config.timeout, signal };
  }

  /** The token of the page after this one, percent-encoded; undefined when there is none, or the body is no page. */
  async nextToken(body: Buffer): Promise<string | undefined> {
    try {
      const page = await this.pages.read(body, this.upstream.name);
      if (typeof page === "string" || page.nextPageToken === undefined) return undefined;
      return encodeURIComponent(page.nextPageToken);
    } catch {
      // There is too much to read: no client waits for what is fetched ahead.
      return undefined;
    }
  }

  policyOf(operation: CachedOperation, requester: Requester): CachePolicy {
    return this.policies[requester][operation];
  }
}

/** Lets {@link FRESH} count whatever is configured: a listing made of stale pages would renew nothing. */
const FOLLOWED = { honorClient: true, clientFloor: 0 };

function policiesOf(
  { config: { cache, forwardAuthorization } }: Upstream,
  changes: Partial<CachePolicy>,
): Record<CachedOperation, CachePolicy> {
  return forEachCached((_, operation) => ({
    ...cachePolicy(cache, operation, forwardAuthorization === true),
    ...changes,
  }));
}

function cachePolicy(config: CacheConfig, operation: CachedOperation, sharedAuthorization: boolean): CachePolicy {
  return {
    ttl: config.ttl[operation],
    notFoundTtl: cachedRecord(operation).address === "id" ? config.ttl.notFound : undefined,
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
    forwardResponseHeaders: config.forwardResponseHeaders,
    sharedAuthorization,
  };
}

/**
 * That of an info, but that only the registry says how long an answer is kept, and all goes upstream that goes with what is
 * passed through and can make a difference to the answer. Where nodes have to agree on what is kept, nothing is: one is asked.
 */
function extraPathPolicyOf({ config }: Upstream): CachePolicy {
  const { cache, forwardAuthorization, agreement } = config;
  const policy = cachePolicy(cache, "info", forwardAuthorization !== false);
  const { forwardRequestHeaders: named } = policy;
  return {
    ...policy,
    ttl: undefined,
    honorUpstream: policy.honorUpstream && agreement.metadata === 1,
    forwardRequestHeaders: named === "*" ? named : [...named, "accept"],
  };
}

const MAX_CHAINS = 10_000;

/** What is known of the page behind one token. */
interface Chain {
  /** The pagination it belongs to. */
  pagination?: string;
  /** The digest under which the token was last issued here. */
  issued?: string;
}

/**
 * How the pages of one registry's listing hang together, by the chains (page size and token) that name them. Bounded:
 * what is forgotten costs a call to another node, or a token that is issued once more.
 */
export class PageChains {
  // A size of one each: with `max` each of hundreds of upstreams takes the memory of all at once.
  private readonly chains = new LRUCache<string, Chain>({ maxSize: MAX_CHAINS, sizeCalculation: () => 1 });
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

  /** Notes what a token was issued under; false when it was so already, and need not be announced. */
  isNewlyIssued(chain: string, digest: string): boolean {
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
