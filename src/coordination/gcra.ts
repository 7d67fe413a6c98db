import type { Duration, Instant } from "../clock.ts";

/** A token bucket: it holds `burst` tokens, and one comes back every `interval` (milliseconds, may be a fraction). */
export interface TokenBucket {
  readonly burst: number;
  readonly interval: Duration;
}

/** How many tokens of a bucket were missing at an instant. A new one is full: nothing is missing. */
export interface BucketLevel {
  missing: number;
  at: Instant;
}

/** Sums of fractions must not refuse the last token of a bucket. */
const ROUNDING = 1e-6;

/**
 * The generic cell rate algorithm, told by what is missing rather than by the theoretical arrival time: the same
 * decisions (that time is `at + missing × interval`), and exact for intervals far below the clock's resolution.
 * Puts back what has come since `at`.
 */
export function refill(level: BucketLevel, interval: Duration, now: Instant): void {
  if (now <= level.at) return;
  level.missing = Math.max(0, level.missing - (now - level.at) / interval);
  level.at = now;
}

export function hasToken(missing: number, burst: number): boolean {
  return missing + 1 <= burst + ROUNDING;
}

/** Whole tokens that are left. */
export function tokensLeft(missing: number, burst: number): number {
  return Math.max(0, Math.floor(burst - missing + ROUNDING));
}

/** How long until there is a token; 0 when there is one. */
export function untilToken(missing: number, { burst, interval }: TokenBucket): Duration {
  return hasToken(missing, burst) ? 0 : (missing + 1 - burst) * interval;
}
