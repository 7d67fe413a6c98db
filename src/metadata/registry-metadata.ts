import type { Duration } from "../clock.ts";
import type { HttpCache } from "../cache/http-cache.ts";
import type { CachePolicy } from "../cache/policy.ts";
import type { Fetched, FetchRequest, Resource } from "../cache/resource.ts";
import type { Entry } from "../cache/entry.ts";
import type { CacheKey } from "../cache/store.ts";
import type { CacheConfig } from "../config/schema.ts";
import type { Coordinator } from "../coordinator/coordinator.ts";
import { filterFields } from "../fields.ts";
import type { CachedOperation } from "../spec/endpoints.ts";
import type { Priority } from "../upstream/call.ts";
import type { CallTrace } from "../upstream/trace.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { checkAnswer } from "./answer-check.ts";
import { chainOf, type MetadataAddress, metadataKey, metadataPath } from "./metadata-key.ts";
import { requestFields } from "./metadata-request.ts";
import type { MetadataObserver } from "./observer.ts";
import { PageChanges } from "./page-changes.ts";
import { chainDigest, instrumentSlices, readPage } from "./page.ts";
import { PageWalks } from "./page-walks.ts";
import { newestSupply } from "./supply.ts";

export interface RegistryMetadataOptions {
  readonly upstream: Upstream;
  readonly cache: HttpCache;
  readonly coordinator: Coordinator;
  readonly observer: MetadataObserver;
  /** Follows the calls made for the request in whose course it is asked; undefined where requests are not traced. */
  readonly trace?: (() => CallTrace | undefined) | undefined;
}

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
  readonly walks = new PageWalks();
  readonly changes = new PageChanges();
  private readonly policies: Readonly<Record<CachedOperation, CachePolicy>>;

  constructor({ upstream, cache, coordinator, observer, trace }: RegistryMetadataOptions) {
    this.upstream = upstream;
    this.cache = cache;
    this.coordinator = coordinator;
    this.observer = observer;
    this.trace = trace;
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
    return new MetadataResource(this, admin, address, requester);
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
    const answer = await upstream.call({
      operation,
      method: "GET",
      path: metadataPath(this.address),
      fields: requestFields(request, this.policy),
      priority: this.priorityOf(request),
      deadline: request.deadline,
      signal: request.signal,
      walk: this.walk(),
      trace: this.registry.trace?.(),
    });
    const problem = checkAnswer(upstream, operation, answer, observer);
    const asOf = answer.status === 200 ? newestSupply(answer.json) : undefined;
    if (asOf !== undefined) observer.supplySeen(upstream.name, asOf);
    const unstorable = problem === undefined ? this.pageProblem(answer.status, answer.json) : "schema";
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

  /** A stored page tells the tokens it issued apart from invented ones, and holds its instruments one by one. */
  stored(entry: Entry, fetched: Fetched): void {
    if (this.address.operation !== "instruments" || entry.status !== 200) return;
    const text = fetched.body.toString("utf8");
    const page = readPage(JSON.parse(text));
    const { pageSize } = this.address;
    if (page.nextPageToken !== undefined) {
      const chain = chainOf(pageSize, encodeURIComponent(page.nextPageToken));
      this.registry.coordinator.issueChain(this.admin, chain, chainDigest(page, entry.generation));
      if (this.registry.changes.notice(chain, chainDigest(page, ""))) {
        this.registry.observer.chainReset(this.registry.upstream.name);
      }
      this.registry.walks.follow(this.chain(), chain);
    }
    for (const { id, text: slice } of instrumentSlices(text, page)) {
      this.registry.cache.fill(this.registry.resource(this.admin, { operation: "instrument", id }), {
        entryOf: fetched,
        body: Buffer.from(slice),
        maxLifetime: entry.freshUntil - entry.receivedAt,
      });
    }
  }

  private pageProblem(status: number, json: unknown): string | undefined {
    if (this.address.operation !== "instruments" || status !== 200) return undefined;
    const { nextPageToken } = readPage(json);
    if (nextPageToken === undefined) return undefined;
    // Half a surrogate pair cannot be part of a URL: the page after this one can't be asked for.
    if (!nextPageToken.isWellFormed()) return "unusable-token";
    if (this.address.pageToken === undefined) return undefined;
    const next = chainOf(this.address.pageSize, encodeURIComponent(nextPageToken));
    return next === this.chain() ? "repeated-token" : undefined;
  }

  private priorityOf({ purpose }: FetchRequest): Priority {
    return this.requester === "walker" ? "walker" : purpose;
  }

  private walk(): string | undefined {
    return this.address.operation === "instruments" ? this.registry.walks.of(this.chain()) : undefined;
  }

  private chain(): string | undefined {
    const { pageSize, pageToken } = this.address;
    return pageToken === undefined ? undefined : chainOf(pageSize, pageToken);
  }
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
