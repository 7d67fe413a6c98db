import type { Duration, Instant } from "../../clock.ts";

const BUCKETS = 10;

/** Counts successes and failures of the last `span`, in tenths of it. */
export class OutcomeWindow {
  private readonly width: Duration;
  private readonly good = new Uint32Array(BUCKETS);
  private readonly bad = new Uint32Array(BUCKETS);
  /** Number of the current tenth since the clock's origin. */
  private current = -1;

  constructor(span: Duration) {
    this.width = span / BUCKETS;
  }

  record(isGood: boolean, now: Instant): void {
    this.turn(now);
    const counts = isGood ? this.good : this.bad;
    counts[this.current % BUCKETS]! += 1;
  }

  /** How many there were in the last span, and how many of them failed. */
  count(now: Instant): { total: number; failed: number } {
    this.turn(now);
    let failed = 0;
    let total = 0;
    for (let i = 0; i < BUCKETS; i++) {
      failed += this.bad[i]!;
      total += this.bad[i]! + this.good[i]!;
    }
    return { total, failed };
  }

  clear(): void {
    this.good.fill(0);
    this.bad.fill(0);
  }

  private turn(now: Instant): void {
    const bucket = Math.floor(now / this.width);
    if (bucket === this.current) return;
    if (this.current === -1 || bucket - this.current >= BUCKETS) {
      this.clear();
    } else {
      for (let i = this.current + 1; i <= bucket; i++) {
        this.good[i % BUCKETS] = 0;
        this.bad[i % BUCKETS] = 0;
      }
    }
    this.current = bucket;
  }
}
