import { hasToken, type TokenBucket, tokensLeft, untilToken } from "../coordination/gcra.ts";
import type { Standing } from "./client.ts";

/** A limit of a tier, as clients are told of it. */
export interface Quota extends TokenBucket {
  readonly name: "requests" | "posts";
  readonly requests: number;
  /** Milliseconds. */
  readonly per: number;
}

/** A bucket and what is missing in it. */
export interface Filling {
  readonly bucket: TokenBucket;
  readonly missing: number;
}

/** Texts that are kept for a tier. Most clients are at one of few fillings. */
const MAX_KEPT = 4_096;

/** What a filling's two numbers have to stay below to be one number. */
const MAX_SECONDS = 1_000_000;

/**
 * What clients of one tier are told of their limits: `RateLimit-Policy` and `RateLimit` of
 * draft-ietf-httpapi-ratelimit-headers-11, lists of strings with parameters (RFC 9651).
 *
 * `q` requests in `w` seconds is how a bucket refills. `r` are the tokens left. `t` is when the bucket is full again, and
 * where none is left when there is one, as `Retry-After` says.
 */
export class Standings {
  /** Where no limit counts. */
  readonly uncounted: Standing;
  private readonly quotas: readonly Quota[];
  private readonly policy: readonly string[];
  private readonly kept = new Map<number, Standing>();

  constructor(quotas: readonly Quota[]) {
    this.quotas = quotas;
    this.policy = quotas.length === 0 ? [] : ["ratelimit-policy", quotas.map(policyItem).join(", ")];
    this.uncounted = { isOver: false, retryAfter: 0, fields: this.policy };
  }

  /** Of a request that the first limit alone counts. */
  ofOne(bucket: TokenBucket, missing: number, isOver: boolean): Standing {
    const left = isOver ? 0 : tokensLeft(missing, bucket.burst);
    const seconds = secondsUntil(bucket, missing, left);
    // Those that are over have numbers below zero.
    const key = seconds < MAX_SECONDS ? (isOver ? -1 - seconds : left * MAX_SECONDS + seconds) : undefined;
    const known = key === undefined ? undefined : this.kept.get(key);
    if (known !== undefined) return known;
    const standing = this.standing(isOver ? seconds : 0, [item(this.quotas[0]!, left, seconds)]);
    if (key !== undefined) {
      if (this.kept.size >= MAX_KEPT) this.kept.clear();
      this.kept.set(key, standing);
    }
    return standing;
  }

  /** Of a request that all limits count. */
  ofAll(fillings: readonly Filling[], isOver: boolean): Standing {
    if (fillings.length === 1) return this.ofOne(fillings[0]!.bucket, fillings[0]!.missing, isOver);
    let retryAfter = isOver ? 1 : 0;
    const items = fillings.map(({ bucket, missing }, i) => {
      const left = tokensLeft(missing, bucket.burst);
      const seconds = secondsUntil(bucket, missing, left);
      if (isOver && !hasToken(missing, bucket.burst)) retryAfter = Math.max(retryAfter, seconds);
      return item(this.quotas[i]!, left, seconds);
    });
    return this.standing(retryAfter, items);
  }

  private standing(retryAfter: number, items: readonly string[]): Standing {
    return { isOver: retryAfter > 0, retryAfter, fields: ["ratelimit", items.join(", "), ...this.policy] };
  }
}

/** Until the bucket is full, or where it is empty until there is a token; whole seconds, at least one where it is empty. */
function secondsUntil(bucket: TokenBucket, missing: number, left: number): number {
  if (left > 0) return Math.ceil((missing * bucket.interval) / 1_000);
  return Math.max(1, Math.ceil(untilToken(missing, bucket) / 1_000));
}

function item({ name }: Quota, left: number, seconds: number): string {
  return `"${name}";r=${left};t=${seconds}`;
}

/** A window that is no whole number of seconds becomes the next one, with as much more in it. */
function policyItem({ name, requests, per }: Quota): string {
  const seconds = Math.ceil(per / 1_000);
  return `"${name}";q=${Math.round((requests * seconds * 1_000) / per)};w=${seconds}`;
}
