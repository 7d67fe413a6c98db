import type { IncomingHttpHeaders } from "node:http";
import type { Entry } from "../sharing/entries.ts";
import type { Clock, Duration, Instant } from "../clock.ts";
import { clientFields, type Fields, fieldValue, type FurtherFields } from "../fields.ts";
import { type Coding, CodingChoice, CODINGS, IDENTITY, isCompressible } from "./compression.ts";
import type { FetchResult } from "./fetch.ts";
import type { CacheObserver, StaleReason } from "./observer.ts";
import type { CacheAnswer, CacheOutcome, CachePolicy, CacheTier, Resource } from "./resource.ts";
import { governingDirectives } from "./rfc/cache-control.ts";
import { codedEntityTag, isConditional, isNotModified, notModifiedFields, type Validators } from "./rfc/conditional.ts";
import { type CacheStatus, formatCacheStatus, type ForwardReason, isForAll, upstreamCacheStatus } from "./rfc/reuse.ts";

/** How a request went upstream. */
export interface Forwarding {
  readonly reason: ForwardReason;
  /** It joined a fetch that was running. */
  readonly collapsed: boolean;
}

/** Why a stale answer is given, and what was tried before. */
export interface Staleness {
  readonly reason: StaleReason;
  readonly tier: CacheTier;
  readonly status?: CacheStatus;
}

/** Makes the answer for a request out of an entry, and notifies the observer. */
export class Responder {
  private readonly clock: Clock;
  private readonly observer: CacheObserver;

  constructor(clock: Clock, observer: CacheObserver) {
    this.clock = clock;
    this.observer = observer;
  }

  /** A fresh hit in memory. */
  hit({ key, policy }: Resource, headers: IncomingHttpHeaders, cached: CachedEntry, now: Instant): CacheAnswer {
    this.observer.lookup(key, "memory", "hit");
    return cached.hit(cached.formFor(headers, this.clock), now, policy);
  }

  /** A fresh hit in the shared tier. */
  sharedHit(resource: Resource, headers: IncomingHttpHeaders, cached: CachedEntry): CacheAnswer {
    const status = { ttl: cached.ttl(this.clock.now()), detail: "shared" };
    return this.respond(resource, headers, cached, { outcome: "hit", tier: "shared", status });
  }

  /** An entry that is served though it is, or may be, stale. */
  stale(
    resource: Resource,
    headers: IncomingHttpHeaders,
    cached: CachedEntry,
    { reason, tier, status }: Staleness,
  ): CacheAnswer {
    const ttl = cached.ttl(this.clock.now());
    if (ttl < 0) this.observer.servedStale(resource.key, reason);
    const outcome: CacheOutcome = ttl < 0 ? "stale" : "hit";
    return this.respond(resource, headers, cached, { outcome, tier, status: { ...status, ttl, detail: reason } });
  }

  /** What came from the upstream, or was fetched by another process meanwhile. */
  fetched(
    resource: Resource,
    headers: IncomingHttpHeaders,
    { cached, own, upstreamStatus, stored, skipped }: FetchResult,
    { reason, collapsed }: Forwarding,
  ): CacheAnswer {
    if (upstreamStatus === undefined) return this.sharedHit(resource, headers, cached);
    const shown = collapsed ? cached : own;
    const isNotModified = (shown.formFor(headers, this.clock) & NOT_MODIFIED) !== 0;
    const status = isNotModified ? 304 : shown.entry.status;
    return this.respond(resource, headers, shown, {
      outcome: outcomeOf(upstreamStatus, reason),
      tier: "upstream",
      status: {
        forward: reason,
        forwardStatus: upstreamStatus === status ? undefined : upstreamStatus,
        ttl: stored ? cached.ttl(this.clock.now()) : undefined,
        stored: stored && upstreamStatus !== 304,
        collapsed,
        detail: skipped,
      },
    });
  }

  private respond(
    { key, policy }: Resource,
    headers: IncomingHttpHeaders,
    cached: CachedEntry,
    handling: Handling,
  ): CacheAnswer {
    this.observer.lookup(key, handling.tier, handling.outcome);
    return cached.answer(cached.formFor(headers, this.clock), this.clock.now(), policy, handling);
  }
}

function outcomeOf(upstreamStatus: number, reason: ForwardReason): CacheOutcome {
  if (upstreamStatus === 304) return "revalidated";
  return reason === "bypass" ? "bypass" : "miss";
}

/** The form of an answer is twice its coding, and this where the client has it already: 0 is the body as it was received. */
const NOT_MODIFIED = 1;

/** How the request that is answered was handled. */
export interface Handling {
  readonly outcome: CacheOutcome;
  readonly tier: CacheTier;
  readonly status: CacheStatus;
}

/** The fields of an entry in one form, without those that change by the second. */
interface Head {
  readonly fields: Fields;
  /** What of the entry's fields it has. */
  readonly further: FurtherFields;
  readonly validators: Validators;
  /** Whether the upstream says to clients for how long they may keep it. */
  readonly saysHowLong: boolean;
}

/** The last memory hit in one form, good until its age or ttl changes. */
interface RenderedHit {
  readonly answer: CacheAnswer;
  readonly until: Instant;
  readonly policy: CachePolicy;
}

/** Fresh hits after which an entry is renewed before it expires. */
const HOT_HITS = 3;

/** The last share of its lifetime in which a hot entry is renewed. */
const REFRESH_AHEAD = 0.1;

/** Entries that live shorter than this are not renewed ahead: it would be asking all the time. */
const MIN_AHEAD_LIFETIME: Duration = 5_000;

/** Set anew for each answer, or about the stored bytes in identity coding. */
const NOT_SENT = new Set(["cache-status", "content-length", "age"]);
const ABOUT_IDENTITY_BYTES = new Set(["content-digest", "content-md5", "digest", "repr-digest"]);

/** Asked whether other caches' members of it pass. */
const CACHE_STATUS: Fields = ["cache-status", ""];

/** What `Accept-Encoding` says is the same for all caches of a process. */
const codings = new CodingChoice();

/**
 * An entry in this process with what is derived from it: its body in other codings, and the answers to hits, rendered once a
 * second at most so that a hit costs next to nothing.
 */
export class CachedEntry {
  readonly entry: Entry;
  /** Whether coded variants exist or may be made; answers in any coding then say `Vary: Accept-Encoding`. */
  readonly compressible: boolean;
  /** The body by {@link Coding}, where it was made. */
  readonly coded: (Buffer | undefined)[];
  /** A bit for each coding that a client would rather have, and for each that was asked for, even where it will not come. */
  wanted = 0;
  asked = 0;
  /** In how many forms it was answered with, and how many of them its size in memory counts. */
  forms = 0;
  countedForms = 0;
  /** Fresh hits so far, for refresh-ahead. */
  hits = 0;
  /** After a failed attempt: no further one in the background before this instant. */
  retryAt: Instant = -Infinity;
  /** The last attempt to renew this failed, and a client that waited for it lost time. */
  failedSlowly = false;
  /** When renewing this was last tried, however that ended. */
  triedAt: Instant = -Infinity;
  /**
   * Set for what was cut out of another answer, as long as the shared tier may have something newer: the earliest
   * instant at which that answer can have been made.
   */
  derivedAt: Instant | undefined = undefined;
  /** The soft purges that are seen to in the entry, see EpochsPort.softVersion. */
  softVersion = 0;
  private readonly heads: (Head | undefined)[] = [];
  private readonly renderedHits: (RenderedHit | undefined)[] = [];
  private upstreamStatus: string | undefined | null = null;
  private forAll: boolean | undefined = undefined;

  /** @param predecessor what it renews: of an equal body the coded variants stay, of another those that were wanted are */
  constructor(entry: Entry, predecessor?: CachedEntry) {
    this.entry = entry;
    this.compressible = isCompressible(entry.status, entry.fields, entry.body);
    this.coded = predecessor?.entry.body === entry.body ? [...predecessor.coded] : [];
    this.wanted = predecessor?.wanted ?? 0;
    for (const [coding, body] of this.coded.entries()) if (body !== undefined) this.asked |= 1 << coding;
  }

  /** Whether the upstream lets requests with credentials and those without have the same answer (RFC 9111 §3.5). */
  get isForAll(): boolean {
    return (this.forAll ??= isForAll(governingDirectives(this.entry.fields).directives));
  }

  /** Whole seconds, never negative (RFC 9111 §5.1). */
  age(now: Instant): number {
    return Math.max(0, Math.floor((now - this.entry.bornAt) / 1000));
  }

  /** Whole seconds of freshness left, negative when stale. */
  ttl(now: Instant): number {
    return Math.floor((this.entry.freshUntil - now) / 1000);
  }

  /** Whether it is asked for often and in the last tenth of its time here: to be renewed before it expires. */
  isDueAhead(now: Instant): boolean {
    const { status, freshUntil, receivedAt } = this.entry;
    const time = freshUntil - receivedAt;
    if (this.hits <= HOT_HITS || status !== 200 || time < MIN_AHEAD_LIFETIME) return false;
    return now >= freshUntil - time * REFRESH_AHEAD;
  }

  /** The form in which a request gets this entry: its coding, and whether the client has it already. */
  formFor(headers: IncomingHttpHeaders, clock: Clock): number {
    const accepted = headers["accept-encoding"];
    const form = accepted === undefined || !this.compressible ? IDENTITY : 2 * this.codingFor(accepted);
    if (!isConditional(headers) || this.entry.status !== 200) return form;
    return isNotModified(headers, (this.heads[form] ?? this.head(form, [])).validators, clock.wallNow())
      ? form + NOT_MODIFIED
      : form;
  }

  /** The best there is; notes what would have been better. */
  private codingFor(accepted: string | string[]): Coding {
    const preferred = typeof accepted === "string" ? codings.preferred(accepted) : [];
    if (preferred.length > 0) this.wanted |= 1 << preferred[0]!;
    for (const coding of preferred) if (this.coded[coding] !== undefined) return coding;
    return IDENTITY;
  }

  /** A hit in memory; the same object until a second passes. */
  hit(form: number, now: Instant, policy: CachePolicy): CacheAnswer {
    const rendered = this.renderedHits[form];
    if (rendered !== undefined && now < rendered.until && rendered.policy === policy) return rendered.answer;
    const handling: Handling = { outcome: "hit", tier: "memory", status: { ttl: this.ttl(now) } };
    const answer = this.answer(form, now, policy, handling);
    this.renderedHits[form] = { answer, until: this.nextChange(now), policy };
    return answer;
  }

  /** Any answer made of this entry. */
  answer(form: number, now: Instant, policy: CachePolicy, { outcome, tier, status }: Handling): CacheAnswer {
    const { entry } = this;
    const age = this.age(now);
    const { forwardResponseHeaders: further } = policy;
    const head = this.head(form, further);
    const upstream =
      clientFields(CACHE_STATUS, entry.status, further).length > 0 ? this.upstreamCacheStatus() : undefined;
    const own = formatCacheStatus(status);
    const cacheStatus = upstream === undefined ? own : `${upstream}, ${own}`;
    const changing = head.saysHowLong
      ? ["age", String(age), "cache-status", cacheStatus]
      : ["age", String(age), "cache-control", this.clientCacheControl(now, policy), "cache-status", cacheStatus];
    const isKnown = isForm(form, NOT_MODIFIED);
    const body = isKnown ? undefined : (this.coded[codingOf(form)] ?? entry.body);
    const { ttl } = status;
    const fields = [...head.fields, ...changing];
    return { status: isKnown ? 304 : entry.status, fields, body, outcome, tier, age, ttl };
  }

  /**
   * For clients where the upstream leaves it open. `max-age` counts from birth, and clients subtract `Age` from it: so
   * it is the age plus what they may keep, which is never more than the freshness left here.
   */
  private clientCacheControl(now: Instant, policy: CachePolicy): string {
    const keep = Math.min(Math.floor(policy.clientTtl / 1000), this.ttl(now));
    return keep > 0 ? `max-age=${this.age(now) + keep}` : "no-cache";
  }

  private nextChange(now: Instant): Instant {
    const { bornAt, freshUntil } = this.entry;
    const sinceBirth = now - bornAt;
    const nextAge = sinceBirth < 0 ? bornAt : bornAt + (Math.floor(sinceBirth / 1000) + 1) * 1000;
    const nextTtl = freshUntil - this.ttl(now) * 1000;
    // The ttl floor changes just after that instant; a millisecond early costs one more rendering.
    return Math.min(nextAge, Math.max(nextTtl, now + 1));
  }

  private head(form: number, further: FurtherFields): Head {
    const known = this.heads[form];
    if (known?.further === further) return known;
    if (known === undefined) this.forms += 1;
    return (this.heads[form] = makeHead(this.entry, { form, further, compressible: this.compressible }));
  }

  private upstreamCacheStatus(): string | undefined {
    if (this.upstreamStatus === null) this.upstreamStatus = upstreamCacheStatus(this.entry.fields);
    return this.upstreamStatus;
  }
}

function isForm(form: number, part: number): boolean {
  return (form & part) !== 0;
}

function codingOf(form: number): Coding {
  return (form >> 1) as Coding;
}

function makeHead(
  entry: Entry,
  { form, further, compressible }: { form: number; further: FurtherFields; compressible: boolean },
): Head {
  const coding = CODINGS[codingOf(form)];
  const isCoded = coding !== "identity";
  const fields: string[] = [];
  const passed = clientFields(entry.fields, entry.status, further);
  for (let i = 0; i < passed.length; i += 2) {
    const name = passed[i]!;
    const value = passed[i + 1]!;
    if (NOT_SENT.has(name) || (isCoded && ABOUT_IDENTITY_BYTES.has(name))) continue;
    fields.push(name, name === "etag" && isCoded ? codedEntityTag(value, coding) : value);
  }
  if (compressible && !variesByCoding(fields)) fields.push("vary", "Accept-Encoding");
  if (isCoded) fields.push("content-encoding", coding);
  return {
    further,
    fields: isForm(form, NOT_MODIFIED) ? notModifiedFields(fields) : fields,
    saysHowLong: fieldValue(entry.fields, "cache-control") !== undefined,
    validators: {
      etag: fieldValue(fields, "etag"),
      lastModified: fieldValue(fields, "last-modified"),
      date: fieldValue(fields, "date"),
    },
  };
}

function variesByCoding(fields: Fields): boolean {
  const vary = fieldValue(fields, "vary")?.toLowerCase().split(",") ?? [];
  return vary.some((name) => name.trim() === "accept-encoding" || name.trim() === "*");
}
