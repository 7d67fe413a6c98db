import { type CancelTimer, type Clock, type Duration, type Instant, settledWithin } from "../clock.ts";
import { Recurrence } from "../recurrence.ts";
import { type KeySource, KeySetFault, type PublishedKeys } from "./key-source.ts";
import type { VerificationKey } from "./verification-key.ts";

/** Tokens with keys that the set does not have make it be read no more often. */
const ASK_EVERY: Duration = 10_000;

/** A request waits no longer for keys; they may come later. */
const WAIT: Duration = 2_000;

/** What reading an issuer's keys came to. */
export interface KeySetLook {
  /** Why they cannot be had or are no good, without addresses; undefined: they are in use. */
  readonly fault: string | undefined;
  /** Whether that is worth a line in the log. */
  readonly isNew: boolean;
}

export interface KeySetParts {
  readonly source: KeySource;
  readonly clock: Clock;
  readonly onLook: (look: KeySetLook) => void;
}

/**
 * The public keys of one issuer, read again in the background. The last good ones stay in use while they cannot be had. A
 * reading belongs to no request: all share it.
 */
export class KeySet {
  private readonly parts: KeySetParts;
  private keys: readonly VerificationKey[] = [];
  private usableUntil: Instant = -Infinity;
  private reading: Promise<void> | undefined;
  private readAt: Instant = -Infinity;
  private dueAt: Instant = -Infinity;
  private failures = 0;
  /** See {@link KeySetLook.fault}. */
  private fault: string | undefined;
  private readonly recurrence: Recurrence;
  private cancelTimer: CancelTimer = () => undefined;
  private users = 0;
  private unfollow: (() => void) | undefined;

  constructor(parts: KeySetParts) {
    this.parts = parts;
    this.recurrence = new Recurrence(parts.clock);
  }

  /** Begins to use the set: it is read, unless it was read a moment ago. Each use is ended by {@link leave}. */
  join(): void {
    this.users += 1;
    if (this.users > 1) return;
    this.unfollow = this.parts.source.follow?.(() => this.read());
    if (this.fault !== undefined) this.parts.onLook({ fault: this.fault, isNew: false });
    if (this.dueAt <= this.parts.clock.now()) void this.read();
    else this.schedule();
  }

  /** Ends one use; after the last one nothing is read in the background. */
  leave(): void {
    this.users -= 1;
    if (this.users > 0) return;
    this.cancelTimer();
    this.unfollow?.();
  }

  /** There are keys, and they are not too old. */
  get isUsable(): boolean {
    return this.parts.clock.now() < this.usableUntil;
  }

  /** Keys that a token can be signed with: of that id, or all where it names none. */
  find(algorithm: string, keyId: string | undefined): readonly VerificationKey[] {
    if (!this.isUsable) return [];
    return this.keys.filter((key) => key.fits(algorithm) && (keyId === undefined || key.id === keyId));
  }

  /** Waits until the set was read once more, where that may be done now; not for long. */
  async lookAgain(): Promise<void> {
    const { clock } = this.parts;
    if (this.reading === undefined && clock.now() - this.readAt < ASK_EVERY) return;
    await settledWithin(this.read(), WAIT, clock);
  }

  private read(): Promise<void> {
    this.cancelTimer();
    return (this.reading ??= this.readAnew().finally(() => {
      this.reading = undefined;
    }));
  }

  private async readAnew(): Promise<void> {
    const { source, clock } = this.parts;
    this.readAt = clock.now();
    let next: Duration;
    try {
      const published = await source.read();
      this.take(published);
      this.failures = 0;
      this.report(undefined);
      next = published.freshFor;
    } catch (error) {
      this.failures += 1;
      this.report(error instanceof KeySetFault ? error.message : "cannot be read (unknown error)");
      next = source.retryAfter(this.failures);
    }
    this.dueAt = clock.now() + next;
    if (this.users > 0) this.schedule();
  }

  private schedule(): void {
    this.cancelTimer();
    const { clock } = this.parts;
    this.cancelTimer = clock.after(this.dueAt - clock.now(), () => void this.read());
  }

  /** A key that stays in the set stays the same object; one that is gone counts no more. */
  private take({ keys, freshFor }: PublishedKeys): void {
    this.usableUntil = this.parts.clock.now() + freshFor + this.parts.source.usableFor;
    const before = new Map(this.keys.map((key) => [key.fingerprint, key]));
    for (const key of this.keys) key.usableUntil = -Infinity;
    this.keys = keys.map((key) => before.get(key.fingerprint) ?? key);
    for (const key of this.keys) key.usableUntil = this.usableUntil;
  }

  private report(fault: string | undefined): void {
    const isChanged = fault !== this.fault;
    this.fault = fault;
    if (isChanged) this.recurrence.end();
    this.parts.onLook({ fault, isNew: fault === undefined ? isChanged : this.recurrence.isDue() });
  }
}
