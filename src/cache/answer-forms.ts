import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Instant } from "../clock.ts";
import { clientFields, type Fields, fieldValue, type FurtherFields } from "../fields.ts";
import type { Entry } from "../sharing/entries.ts";
import { type Coding, CodingChoice, CODINGS, IDENTITY, isCompressible } from "./compression.ts";
import { ageOf, ttlOf, windowUsedOf } from "./entry.ts";
import type { CacheAnswer, CacheOutcome, CachePolicy, CacheTier } from "./resource.ts";
import { codedEntityTag, isConditional, isNotModified, notModifiedFields, type Validators } from "./rfc/conditional.ts";
import { asksForNoTransform, type CacheStatus, formatCacheStatus, upstreamCacheStatus } from "./rfc/reuse.ts";

/** The form of an answer is twice its coding, and this where the client has it already: 0 is the body as it was received. */
export const NOT_MODIFIED = 1;

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

/** Set anew for each answer, or about the stored bytes in identity coding. */
const NOT_SENT = new Set(["cache-status", "content-length", "age"]);
const ABOUT_IDENTITY_BYTES = new Set(["content-digest", "content-md5", "digest", "repr-digest"]);

/** Asked whether other caches' members of it pass. */
const CACHE_STATUS: Fields = ["cache-status", ""];

/** What `Accept-Encoding` says is the same for all caches of a process. */
const codings = new CodingChoice();

/**
 * The forms in which an entry is given to clients: its body in other codings, and the answers to hits, rendered once a
 * second at most so that a hit costs next to nothing.
 */
export class AnswerForms {
  /** Whether coded variants exist or may be made; answers in any coding then say `Vary: Accept-Encoding`. */
  readonly compressible: boolean;
  /** The body by {@link Coding}, where it was made. */
  readonly coded: (Buffer | undefined)[];
  /** A bit for each coding that a client would rather have, and for each that was asked for, even where it will not come. */
  wanted = 0;
  asked = 0;
  /** How many forms there are, and how many of them the size of the entry in memory counts. */
  count = 0;
  counted = 0;
  private readonly entry: Entry;
  private readonly heads: (Head | undefined)[] = [];
  private readonly renderedHits: (RenderedHit | undefined)[] = [];
  private upstreamStatus: string | undefined | null = null;

  /** @param predecessor of what the entry renews: of an equal body the coded variants stay, of another those that were wanted are */
  constructor(entry: Entry, predecessor?: AnswerForms) {
    this.entry = entry;
    this.compressible = isCompressible(entry.status, entry.fields, entry.body);
    this.coded = predecessor?.entry.body === entry.body ? [...predecessor.coded] : [];
    this.wanted = predecessor?.wanted ?? 0;
    for (const [coding, body] of this.coded.entries()) if (body !== undefined) this.asked |= 1 << coding;
  }

  /** The form in which a request gets this entry: its coding, and whether the client has it already. */
  formFor(headers: IncomingHttpHeaders, clock: Clock, { honorClient }: Pick<CachePolicy, "honorClient">): number {
    const accepted = headers["accept-encoding"];
    const isPlain = accepted === undefined || !this.compressible || (honorClient && asksForNoTransform(headers));
    const form = isPlain ? IDENTITY : 2 * this.codingFor(accepted);
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
    const handling: Handling = { outcome: "hit", tier: "memory", status: { ttl: ttlOf(this.entry, now) } };
    const answer = this.answer(form, now, policy, handling);
    this.renderedHits[form] = { answer, until: this.nextChange(now), policy };
    return answer;
  }

  /** Any answer made of this entry. */
  answer(form: number, now: Instant, policy: CachePolicy, { outcome, tier, status }: Handling): CacheAnswer {
    const { entry } = this;
    const age = ageOf(entry, now);
    const { forwardResponseHeaders: further } = policy;
    const head = this.head(form, further);
    const upstream =
      clientFields(CACHE_STATUS, entry.status, further).length > 0 ? this.upstreamCacheStatus() : undefined;
    const own = formatCacheStatus(status);
    const cacheStatus = upstream === undefined ? own : `${upstream}, ${own}`;
    const changing = head.saysHowLong
      ? ["age", String(age), "cache-status", cacheStatus]
      : [
          "age",
          String(age),
          "cache-control",
          this.clientCacheControl(now, policy, status),
          "cache-status",
          cacheStatus,
        ];
    const isKnown = isForm(form, NOT_MODIFIED);
    const body = isKnown ? undefined : (this.coded[codingOf(form)] ?? entry.body);
    const { ttl, detail } = status;
    const fields = [...head.fields, ...changing];
    // What is only too large for the memory tier may be kept elsewhere.
    const usableUntil = ttl !== undefined || detail === "too-large" ? entry.usableUntil : undefined;
    const windowUsed = detail === "stale-if-error" ? windowUsedOf(entry, now) : undefined;
    return { status: isKnown ? 304 : entry.status, fields, body, outcome, tier, age, ttl, usableUntil, windowUsed };
  }

  /**
   * For clients where the upstream leaves it open. `max-age` counts from birth, and clients subtract `Age` from it: so
   * it is the age plus what they may keep, which is never more than the freshness left here: nothing of what is not stored.
   */
  private clientCacheControl(now: Instant, policy: CachePolicy, { ttl }: CacheStatus): string {
    const keep = ttl === undefined ? 0 : Math.min(Math.floor(policy.clientTtl / 1000), ttlOf(this.entry, now));
    return keep > 0 ? `max-age=${ageOf(this.entry, now) + keep}` : "no-cache";
  }

  private nextChange(now: Instant): Instant {
    const { bornAt, freshUntil } = this.entry;
    const sinceBirth = now - bornAt;
    const nextAge = sinceBirth < 0 ? bornAt : bornAt + (Math.floor(sinceBirth / 1000) + 1) * 1000;
    const nextTtl = freshUntil - ttlOf(this.entry, now) * 1000;
    // The ttl floor changes just after that instant; a millisecond early costs one more rendering.
    return Math.min(nextAge, Math.max(nextTtl, now + 1));
  }

  private head(form: number, further: FurtherFields): Head {
    const known = this.heads[form];
    if (known?.further === further) return known;
    if (known === undefined) this.count += 1;
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
