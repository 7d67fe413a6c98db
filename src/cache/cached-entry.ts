import type { Duration, Instant } from "../clock.ts";
import type { Entry } from "../sharing/entries.ts";
import { AnswerForms } from "./answer-forms.ts";
import { governingDirectives } from "./rfc/cache-control.ts";
import { varyNames } from "./rfc/request-fields.ts";
import { isForAll } from "./rfc/reuse.ts";

/** Fresh hits after which an entry is renewed before it expires. */
const HOT_HITS = 3;

/** The last share of its lifetime in which a hot entry is renewed. */
const REFRESH_AHEAD = 0.1;

/** Configured lifetimes are shortened by at most this share, so that what was filled together expires apart. */
export const MAX_SHORTENING = 0.1;

/** Entries that live shorter than this are not renewed ahead: it would be asking all the time. */
const MIN_AHEAD_LIFETIME: Duration = 5_000;

/** An entry in this process: the forms in which it is answered, how it is used, and what became of renewing it. */
export class CachedEntry {
  readonly entry: Entry;
  readonly forms: AnswerForms;
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
  private forAll: boolean | undefined = undefined;
  private vary: readonly string[] | undefined = undefined;

  /** @param predecessor what it renews */
  constructor(entry: Entry, predecessor?: CachedEntry) {
    this.entry = entry;
    this.forms = new AnswerForms(entry, predecessor?.forms);
  }

  /** Whether the upstream lets requests with credentials and those without have the same answer (RFC 9111 §3.5). */
  get isForAll(): boolean {
    return (this.forAll ??= isForAll(governingDirectives(this.entry.fields).directives));
  }

  /** The request fields that the upstream's `Vary` names. */
  get varies(): readonly string[] {
    if (this.vary === undefined) {
      const names = varyNames(this.entry.fields);
      this.vary = names === "*" ? [] : names;
    }
    return this.vary;
  }

  /** When it has a fifth of its time here left: what was cut out of it lives shorter by {@link MAX_SHORTENING}, and is renewed ahead. */
  get ageingAt(): Instant {
    const { freshUntil, receivedAt } = this.entry;
    return freshUntil - (freshUntil - receivedAt) * (REFRESH_AHEAD + MAX_SHORTENING);
  }

  /** Whether it is asked for often and in the last tenth of its time here: to be renewed before it expires. */
  isDueAhead(now: Instant): boolean {
    const { status, freshUntil, receivedAt } = this.entry;
    const time = freshUntil - receivedAt;
    if (this.hits <= HOT_HITS || status !== 200 || time < MIN_AHEAD_LIFETIME) return false;
    return now >= freshUntil - time * REFRESH_AHEAD;
  }
}
