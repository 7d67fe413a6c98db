import { OWN_TARGETED_FIELD } from "../answer-fields.ts";
import type { Instant } from "../clock.ts";
import { fieldValue, type Fields } from "../fields.ts";
import type { CacheStatus } from "./rfc/cache-status.ts";
import { formatCacheStatus, upstreamCacheStatus } from "./rfc/cache-status.ts";
import { isCompressible } from "./compressor.ts";
import { notModifiedFields, type Validators } from "./rfc/conditional.ts";
import type { Coding } from "./rfc/content-coding.ts";
import { codedEntityTag } from "./rfc/entity-tag.ts";
import type { Entry } from "./entry.ts";
import type { CachePolicy } from "./policy.ts";
import type { CacheAnswer, CacheOutcome, CacheTier } from "./resource.ts";
import { isForAll } from "./rfc/storable.ts";
import { governingDirectives } from "./rfc/targeted.ts";

/** What makes an answer out of an entry. */
export interface Presentation {
  readonly now: Instant;
  readonly policy: CachePolicy;
  readonly coding: Coding;
  /** Answer 304. */
  readonly notModified: boolean;
}

/** How the request that is answered was handled. */
export interface Handling {
  readonly outcome: CacheOutcome;
  readonly tier: CacheTier;
  readonly status: CacheStatus;
}

/** The fields of an entry for one coding and kind of answer, without those that change by the second. */
interface Head {
  readonly fields: Fields;
  readonly validators: Validators;
}

/** The last plain hit rendered, good until its age or ttl changes. */
interface Rendered {
  readonly answer: CacheAnswer;
  readonly until: Instant;
  readonly policy: CachePolicy;
}

/** Set anew for each answer, or about the stored bytes in identity coding. */
const NOT_SENT = new Set([OWN_TARGETED_FIELD, "cache-status", "content-length", "age"]);
const ABOUT_IDENTITY_BYTES = new Set(["content-digest", "content-md5", "digest", "repr-digest"]);

/**
 * An entry in this process with what is derived from it: the gzip variant, and the heads of answers, rendered once a
 * second at most so that a hit costs next to nothing.
 */
export class Held {
  readonly entry: Entry;
  /** Whether a gzip variant exists or is to be made; both codings then say `Vary: Accept-Encoding`. */
  readonly compressible: boolean;
  gzip: Buffer | undefined;
  /** Whether it was asked for, be it that it will not come. */
  compressionAsked = false;
  /** Fresh hits so far, for refresh-ahead. */
  hits = 0;
  /** After a failed attempt: no further one in the background before this instant. */
  retryAt: Instant = -Infinity;
  /** The last attempt to renew this failed, and whoever waited for it lost time. */
  failedSlowly = false;
  /** When renewing this was last tried, however that ended. */
  triedAt: Instant = -Infinity;
  /**
   * Set for what was cut out of another answer, as long as the shared tier may have something newer: the earliest
   * instant at which that answer can have been made.
   */
  derivedAt: Instant | undefined = undefined;
  private readonly heads: (Head | undefined)[] = [];
  private readonly hitAnswers: (Rendered | undefined)[] = [];
  private upstreamStatus: string | undefined | null = null;
  private forAll: boolean | undefined = undefined;

  constructor(entry: Entry, gzip?: Buffer) {
    this.entry = entry;
    this.compressible = isCompressible(entry.status, entry.fields, entry.body);
    this.gzip = gzip;
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

  /** What conditions of a client are compared with when the answer would have this coding. */
  validators(coding: Coding): Validators {
    return this.head(coding, false).validators;
  }

  /** A hit in memory; the same object until a second passes. */
  hit(presentation: Presentation): CacheAnswer {
    const { now, policy } = presentation;
    const slot = slotOf(presentation);
    const rendered = this.hitAnswers[slot];
    if (rendered !== undefined && now < rendered.until && rendered.policy === policy) return rendered.answer;
    const answer = this.answer(presentation, {
      outcome: "hit",
      tier: "memory",
      status: { ttl: this.ttl(now) },
    });
    this.hitAnswers[slot] = { answer, until: this.nextChange(now), policy };
    return answer;
  }

  /** Any answer made of this entry. */
  answer(presentation: Presentation, { outcome, tier, status }: Handling): CacheAnswer {
    const { now, policy, coding, notModified } = presentation;
    const { entry } = this;
    const age = this.age(now);
    const fields = this.head(coding, notModified).fields.concat("age", String(age));
    if (fieldValue(entry.fields, "cache-control") === undefined) {
      fields.push("cache-control", this.clientCacheControl(now, policy));
    }
    const upstream = this.upstreamCacheStatus();
    const own = formatCacheStatus(status);
    fields.push("cache-status", upstream === undefined ? own : `${upstream}, ${own}`);
    if (notModified) return { status: 304, fields, body: undefined, outcome, tier, age };
    return { status: entry.status, fields, body: coding === "gzip" ? this.gzip : entry.body, outcome, tier, age };
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

  private head(coding: Coding, notModified: boolean): Head {
    const slot = (coding === "gzip" ? 2 : 0) + (notModified ? 1 : 0);
    return (this.heads[slot] ??= makeHead(this.entry, coding, { notModified, vary: this.compressible }));
  }

  private upstreamCacheStatus(): string | undefined {
    if (this.upstreamStatus === null) this.upstreamStatus = upstreamCacheStatus(this.entry.fields);
    return this.upstreamStatus;
  }
}

function slotOf({ coding, notModified }: Presentation): number {
  return (coding === "gzip" ? 2 : 0) + (notModified ? 1 : 0);
}

function makeHead(entry: Entry, coding: Coding, { notModified, vary }: { notModified: boolean; vary: boolean }): Head {
  const fields: string[] = [];
  for (let i = 0; i < entry.fields.length; i += 2) {
    const name = entry.fields[i]!;
    const value = entry.fields[i + 1]!;
    if (NOT_SENT.has(name) || (coding === "gzip" && ABOUT_IDENTITY_BYTES.has(name))) continue;
    fields.push(name, name === "etag" && coding === "gzip" ? codedEntityTag(value, coding) : value);
  }
  if (vary && !variesByCoding(fields)) fields.push("vary", "Accept-Encoding");
  if (coding === "gzip") fields.push("content-encoding", coding);
  return {
    fields: notModified ? notModifiedFields(fields) : fields,
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
