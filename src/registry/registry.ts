import type { Logger } from "pino";
import { readJson } from "../bodies/answer.ts";
import { type ListedPage, readPage } from "../bodies/page.ts";
import type { Cache } from "../cache/cache.ts";
import type {
  CacheExplanation,
  CacheKey,
  CachePolicy,
  Condition,
  Entry,
  Fetched,
  FetchPurpose,
  Found,
} from "../cache/types.ts";
import type { Clock, Duration, Instant, Wait } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";
import { CACHED_OPERATIONS, type CachedOperation } from "../spec/operations.ts";
import type { Answer, CallReport } from "../upstream/types.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { groupOf, keyOf, type MetadataRequest, pathOf } from "./key.ts";
import { cutInstrument, hasChanged, whyNoPage } from "./pages.ts";
import { policyOf } from "./policy.ts";

export type { MetadataRequest } from "./key.ts";

/** A request's deadline and signal, and what a fetch that it starts carries. */
export interface RegistryWait extends Wait {
  readonly requestId?: string | undefined;
  /** `traceparent`, `tracestate`. */
  readonly trace?: Fields | undefined;
  /** Called when a call that this request started has ended: the last one counts. */
  readonly onEnd?: ((report: CallReport) => void) | undefined;
  /** Keeps what is fetched in the eighth of memory for minor answers, where it evicts nothing else. */
  readonly isMinor?: boolean | undefined;
}

interface RegistryOptions {
  readonly cache: Cache;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The cache's explanation, and whether the first page in memory answers the request. */
export interface RegistryExplanation extends CacheExplanation {
  /** Time for which the instrument is answered from that page; undefined: it is not. */
  readonly listedFor?: Duration;
}

/** Time for which a registry that refused the configured page size is asked without it. */
const SIZE_REFUSED_FOR: Duration = 10 * 60_000;

/** One fetch as the cache wants it. */
interface FetchTerms {
  readonly condition: Condition | undefined;
  readonly purpose: FetchPurpose;
  readonly wait: RegistryWait;
}

/** The cached face of one registry: its info, pages and instruments. */
export class Registry {
  readonly upstream: Upstream;
  private readonly options: RegistryOptions;
  private readonly policies: Readonly<Record<CachedOperation, CachePolicy>>;
  /** Pages that were taken apart, or what is wrong with them, by their entry: each lives as long. */
  private readonly pages = new WeakMap<Entry, ListedPage | string>();
  private sizeRefusedUntil: Instant = -Infinity;

  constructor(upstream: Upstream, options: RegistryOptions) {
    const { config } = upstream;
    this.upstream = upstream;
    this.options = options;
    const policies = CACHED_OPERATIONS.map((each) => [each, policyOf(config, each)]);
    this.policies = Object.fromEntries(policies) as Record<CachedOperation, CachePolicy>;
  }

  /** Finds what is fresh in memory; undefined: {@link get} has to see to it. */
  hit(request: MetadataRequest): Found | undefined {
    const { admin } = this.upstream;
    if (admin === undefined || this.upstream.whyDisabled() !== undefined) return undefined;
    const found = this.options.cache.hit(this.keyOf(admin, request));
    if (request.operation !== "instrument" || found?.entry.status === 200) return found;
    return this.listed(admin, request.id) ?? found;
  }

  /**
   * Gets an answer from the cache or the registry. The fetch belongs to no client: it goes on when `wait` is over.
   *
   * @throws GatewayError where there is nothing to be had
   */
  async get(request: MetadataRequest, wait: RegistryWait): Promise<Found> {
    const disabled = this.upstream.whyDisabled();
    if (disabled !== undefined) throw disabled;
    const admin = this.upstream.admin ?? (await this.upstream.learnAdmin(wait));
    const hit = this.hit(request);
    if (hit !== undefined) return hit;
    const key = this.keyOf(admin, request);
    const keptBy = wait.isMinor === true ? { ...key, isMinor: true } : key;
    return this.options.cache.get(
      keptBy,
      this.policies[request.operation],
      (condition, purpose) => this.fetch(key, request, { condition, purpose, wait }),
      wait,
    );
  }

  /** Tells what is stored of a request, and what becomes of the next one; undefined while the admin is not known. */
  async explain(request: MetadataRequest): Promise<RegistryExplanation | undefined> {
    const { admin } = this.upstream;
    if (admin === undefined) return undefined;
    const { cache, clock } = this.options;
    const explanation = await cache.explain(this.keyOf(admin, request));
    const listed = request.operation === "instrument" ? this.listed(admin, request.id) : undefined;
    return { ...explanation, ...(listed && { listedFor: listed.entry.freshUntil - clock.now() }) };
  }

  /**
   * Takes apart the page that an entry of `instruments` is, once.
   *
   * @throws GatewayError 502 where it is none
   */
  readPage(entry: Entry): ListedPage {
    const page = this.pages.get(entry) ?? readPage(entry.body, readJson(entry.body)?.json);
    this.pages.set(entry, page);
    if (typeof page !== "string") return page;
    throw new GatewayError("upstream_invalid", `the registry "${this.upstream.name}" sent no readable page: ${page}`);
  }

  private keyOf(admin: string, request: MetadataRequest): CacheKey {
    const isPage = request.operation === "instruments";
    return keyOf(admin, request, isPage ? this.options.cache.generationOf(groupOf(admin)) : 0);
  }

  /** Finds an instrument on the first page in memory, where that is no older than an instrument may be. */
  private listed(admin: string, id: string): Found | undefined {
    const { cache, clock } = this.options;
    const page = cache.hit(this.keyOf(admin, { operation: "instruments" }))?.entry;
    const { ttl } = this.policies.instrument;
    if (page === undefined || clock.now() >= page.bornAt + ttl) return undefined;
    try {
      const entry = cutInstrument(page, this.readPage(page), id, ttl);
      return entry && { entry, outcome: "hit", detail: { stored: false, reason: "listed" } };
    } catch {
      // A page that cannot be read lists nothing.
      return undefined;
    }
  }

  private async fetch(key: CacheKey, request: MetadataRequest, terms: FetchTerms): Promise<Fetched> {
    const before = request.operation === "instruments" ? this.options.cache.peek(key) : undefined;
    const { json, ...answer } = await this.call(request, terms);
    if (request.operation !== "instruments" || answer.status !== 200) return answer;
    const unstorable = whyNoPage(json, request.pageToken);
    if (unstorable !== undefined) return { ...answer, unstorable };
    return { ...answer, generation: this.noteChange(key, before, json) };
  }

  /** Gives the generation of a page: a new one where it has changed, so that the others miss from now on, at all replicas. */
  private noteChange({ party, generation }: CacheKey, before: Entry | undefined, json: unknown): number {
    const { cache } = this.options;
    const isNoted = cache.generationOf(groupOf(party)) !== generation;
    if (before === undefined || isNoted || !hasChanged(readJson(before.body)?.json, json)) return generation;
    return cache.beginGeneration(groupOf(party));
  }

  /** Asks the registry; where it refuses the size that the configuration asks for, without one. */
  private async call(request: MetadataRequest, terms: FetchTerms): Promise<Answer> {
    const { pageSize } = this.upstream.config;
    const { clock, log } = this.options;
    const deadline = clock.now() + this.upstream.config.timeout;
    const leavesOpen = request.operation === "instruments" && request.pageSize === undefined;
    const ask = (size?: number): Promise<Answer> => this.upstream.call(this.callOf(request, terms, { size, deadline }));
    if (!leavesOpen || pageSize === undefined || clock.now() < this.sizeRefusedUntil) return ask();
    const sized = await orRefused(ask(pageSize));
    if (sized !== "refused") return sized;
    const answer = await ask();
    if (answer.status === 200 || answer.status === 304) {
      this.sizeRefusedUntil = clock.now() + SIZE_REFUSED_FOR;
      log.info({ upstream: this.upstream.name, pageSize }, "the registry answers 400 to pageSize; asked without it");
    }
    return answer;
  }

  private callOf(
    request: MetadataRequest,
    { condition, purpose, wait }: FetchTerms,
    { size, deadline }: { readonly size: number | undefined; readonly deadline: Instant },
  ) {
    const { requestId, trace = [], onEnd } = wait;
    return {
      operation: request.operation,
      method: "GET",
      base: "registry",
      path: pathOf(request, size),
      fields: requestId === undefined ? trace : ["x-request-id", requestId, ...trace],
      priority: purpose === "miss" ? "client" : "refresh",
      deadline,
      condition,
      id: request.operation === "instrument" ? request.id : undefined,
      // A refresh is nobody's.
      onEnd: purpose === "miss" ? onEnd : undefined,
    } as const;
  }
}

/** Gives an answer, unless it is a 400, in whatever form the registry writes one. */
async function orRefused(answer: Promise<Answer>): Promise<Answer | "refused"> {
  try {
    const given = await answer;
    return given.status === 400 ? "refused" : given;
  } catch (error) {
    if (error instanceof GatewayError && error.code === "upstream_error" && error.status === 400) return "refused";
    throw error;
  }
}
