import { checkAnswer } from "../bodies/answer.ts";
import type { CacheKey, Entry } from "../sharing/entries.ts";
import { chainDigest, type ListedPage } from "../bodies/page.ts";
import type { CachePolicy, Fetched, FetchRequest, Resource } from "../cache/resource.ts";
import { forwardedFields } from "../cache/rfc/request-fields.ts";
import type { Duration, Instant } from "../clock.ts";
import type { GatewayError } from "../errors.ts";
import { type Fields, fieldValue, filterFields } from "../fields.ts";
import { TRACE_FIELDS, traceFieldsOf } from "../trace-context.ts";
import { cachedRecord } from "../spec/operations.ts";
import type { Priority } from "../limits/wait-queue.ts";
import type { UpstreamAnswer } from "../upstream/call.ts";
import { findListed, type ListedInstrument, MAX_LOOKED_THROUGH } from "./listed-instrument.ts";
import { chainOf, type MetadataAddress, metadataKey, metadataPath, purgeScopes } from "./metadata-key.ts";
import { PAGE_SIZES } from "./page-size-negotiation.ts";
import type { RegistryMetadata, Requester } from "./registry-metadata.ts";

/** Instruments of a page that are stored before anything else may run: two or three milliseconds' worth. */
const FILLED_AT_ONCE = 100;

/** So many of a page are stored one by one: with all of a larger one, a listing would take the whole memory tier. */
const MAX_FILLED = 5_000;

/** One thing that a registry lets be cached: how it is fetched, and what it teaches the cache once it is stored. */
export class MetadataResource implements Resource {
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
    this.policy = registry.policyOf(address.operation, requester);
    this.timeout = registry.upstream.config.timeout;
  }

  refusal(): GatewayError | undefined {
    return this.registry.upstream.refusal();
  }

  async fetch(request: FetchRequest): Promise<Fetched> {
    const { upstream, observer } = this.registry;
    const { operation } = this.address;
    this.registry.admit();
    const answer = await this.call(request);
    answer.origin?.whenStray(() => void this.registry.coordinator.epochs.purge(this.admin, this.strayScopes));
    const problem = checkAnswer(upstream, answer, () => observer.schemaViolated(upstream.name, operation));
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
    const { pageSize, defaultPageSize, pageToken } = this.address;
    const pagination = this.isPage ? this.registry.chains.paginationOf(this.chain()) : undefined;
    const ask = (size: number | undefined) => this.callWith(size, request, pagination);
    if (defaultPageSize === undefined) return ask(pageSize);
    const { defaultSize } = this.registry.negotiations;
    const subject = `${defaultPageSize} ${this.admin}`;
    // A token that is no good is refused at every size.
    const mayBeSize = () => pageToken === undefined || !defaultSize.isSettled(subject);
    const found = await defaultSize.negotiate(subject, pageSizesFrom(defaultPageSize), ask, mayBeSize);
    return found.answer;
  }

  private callWith(
    pageSize: number | undefined,
    request: FetchRequest,
    pagination: string | undefined,
  ): Promise<UpstreamAnswer> {
    return this.registry.upstream.call({
      operation: this.address.operation,
      method: "GET",
      path: metadataPath({ ...this.address, pageSize }),
      instrument: this.address.id,
      fields: requestFields(request, this.policy),
      priority: this.priorityOf(request),
      maxWait: request.maxWait,
      deadline: request.deadline,
      signal: request.signal,
      pagination,
      trace: this.registry.trace?.(),
    });
  }

  /** A stored page distinguishes the tokens it issued from invented ones, and holds its instruments one by one. */
  stored(entry: Entry, fetched: Fetched): void {
    // A large page that was confirmed, and is no longer at hand, takes a while: its tokens were issued when it was received.
    this.readPage(entry, fetched.body, (page) => this.learn(page, entry, fetched));
  }

  /** That a page of another replica changed may not have been heard: what is stored here of those after it has to go. */
  adopted(entry: Entry): void {
    const { epochs } = this.registry.coordinator;
    this.readPage(entry, entry.body, (page) => {
      if (epochs.epochOf(this.key) === entry.epoch) this.issueNext(page, entry, "unless known");
    });
  }

  private readPage(entry: Entry, body: Buffer, take: (page: ListedPage) => void): void {
    if (!this.isPage || entry.status !== 200) return;
    const { pages, upstream } = this.registry;
    const page = pages.read(body, upstream.name);
    const taken = (read: ListedPage | string) => {
      if (typeof read !== "string") take(read);
    };
    if (page instanceof Promise) page.then(taken).catch(() => undefined);
    else taken(page);
  }

  /** A page that another replica fetched, and learned from, has its instruments here as well. */
  unpack(entry: Entry, page: ListedPage): void {
    this.fill(page, 0, { entry, fetched: { ...entry, requestedAt: entry.madeAt } });
  }

  /**
   * An instrument may be on a page that another replica fetched: such a page comes whole, and is taken apart when needed. One
   * call for a page renews all its instruments, where each would be asked for by itself.
   */
  async derive(purpose?: FetchRequest["purpose"]): Promise<void> {
    const { registry, admin } = this;
    const { id } = this.address;
    if (id === undefined) return;
    const listed = await findListed(registry, admin, id);
    if (listed === undefined || !this.fillListed(listed)) return;
    // A registry that sees who asks is asked for a page in a client's name alone, and no client wants this one.
    if (purpose === undefined || this.policy.sharedAuthorization) return;
    if (listed.entry.body.length > MAX_LOOKED_THROUGH) return;
    await registry.cache.renew(listed.source, purpose);
    const renewed = await findListed(registry, admin, id);
    if (renewed !== undefined) this.fillListed(renewed);
  }

  private fillListed({ source, entry, page, at }: ListedInstrument): boolean {
    // It was purged while it was looked for.
    if (!this.isCurrent(source.key, entry)) return false;
    return this.fillOne(page, at, { ...entry, requestedAt: entry.madeAt }, entry.freshUntil);
  }

  private learn(page: ListedPage, entry: Entry, fetched: Fetched): void {
    // What was purged since teaches nothing.
    if (!this.isCurrent(this.key, entry)) return;
    const { pages, chains } = this.registry;
    // What is stored may be a copy of what was received: it is what comes again when it is confirmed.
    if (entry.body !== page.body) pages.keep(page.over(entry.body));
    const next = this.issueNext(page, entry, "anew");
    if (next !== undefined) chains.follow(this.chain(), next);
    this.fill(page, 0, { entry, fetched });
  }

  /**
   * Issues the token of the page after this one, and returns its chain; undefined after the last.
   *
   * @param how `anew`: also where it was issued under the same digest here, so that it is not forgotten
   */
  private issueNext(page: ListedPage, { epoch }: Entry, how: "anew" | "unless known"): string | undefined {
    const { coordinator, chains } = this.registry;
    const next = this.chainAfter(page);
    if (next === undefined) return undefined;
    const digest = chainDigest(page.parts, epoch);
    const isNew = chains.isNewlyIssued(next, digest);
    if (isNew || how === "anew") coordinator.chains.issueChain(this.admin, next, digest);
    return next;
  }

  /** Stores the instruments of a page one by one, from `begin` on: a part now, the rest when other work was done. */
  private fill(page: ListedPage, begin: number, source: { readonly entry: Entry; readonly fetched: Fetched }): void {
    const { entry, fetched } = source;
    if (!this.isCurrent(this.key, entry)) return;
    const end = Math.min(page.ids.length, begin + FILLED_AT_ONCE, MAX_FILLED);
    for (let at = begin; at < end; at++) {
      this.fillOne(page, at, fetched, entry.freshUntil);
    }
    if (end < Math.min(page.ids.length, MAX_FILLED)) setImmediate(() => this.fill(page, end, source));
  }

  /** Stores the instrument at this place of a page, for no longer than the page is fresh. */
  private fillOne(page: ListedPage, at: number, entryOf: Fetched, freshUntil: Instant): boolean {
    return this.registry.cache.fill(
      this.registry.resource(this.admin, { operation: "instrument", id: page.ids[at]! }),
      {
        entryOf,
        body: page.bytes(at),
        maxLifetime: freshUntil - entryOf.receivedAt,
      },
    );
  }

  /** Whether neither the page nor any instrument on it was purged, softly or not: that changes the page's own epochs. */
  private isCurrent(key: CacheKey, entry: Entry): boolean {
    const { epochs } = this.registry.coordinator;
    return epochs.epochOf(key) === entry.epoch && epochs.softEpochOf(key) === entry.softEpoch;
  }

  private pageProblem({ status, body, content }: UpstreamAnswer): string | undefined {
    if (!this.isPage || status !== 200 || content === undefined) return undefined;
    const page = this.registry.pages.take(body, content.page);
    if (typeof page === "string") return "page";
    const next = this.chainAfter(page);
    return next !== undefined && next === this.chain() ? "repeated-token" : undefined;
  }

  /** What goes with this answer when it turns out to be another's: of a page, what was cut out of it as well. */
  private get strayScopes(): readonly string[] {
    return this.isPage ? purgeScopes(this.address.operation) : this.key.scopes.slice(-1);
  }

  private get isPage(): boolean {
    return cachedRecord(this.address.operation).address === "page";
  }

  private priorityOf({ purpose }: FetchRequest): Priority {
    return this.requester === "background" ? "background" : purpose;
  }

  private chainAfter({ nextPageToken: token }: ListedPage): string | undefined {
    return token === undefined ? undefined : chainOf(this.address, encodeURIComponent(token));
  }

  private chain(): string | undefined {
    const { pageToken } = this.address;
    return pageToken === undefined ? undefined : chainOf(this.address, pageToken);
  }
}

function isUntraced(name: string): boolean {
  return !TRACE_FIELDS.has(name);
}

/** Sizes to ask for, the configured one first. */
function pageSizesFrom(configured: number): readonly (number | undefined)[] {
  return [configured, ...PAGE_SIZES.filter((size) => size === undefined || size < configured)];
}

/**
 * What goes upstream on a cached route: our own `Accept`, tracing, the condition, and the client's fields that are part
 * of the cache key. Nothing else of a client may reach the upstream, or one client could decide what others get.
 */
function requestFields(request: FetchRequest, policy: CachePolicy): Fields {
  const fields = filterFields(forwardedFields(policy, request.headers), isUntraced);
  const accept = fieldValue(fields, "accept") !== undefined ? [] : ["accept", "application/json"];
  // A trace goes through, and takes no part in what the upstream answers.
  return [...accept, ...traceFieldsOf(request.headers), ...fields, ...request.conditional];
}
