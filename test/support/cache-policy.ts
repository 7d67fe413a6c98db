import type { CachePolicy } from "../../src/cache/resource.ts";

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;

/** A policy that does nothing by itself: only what the upstream says counts. */
const UPSTREAM_ONLY: CachePolicy = {
  ttl: 0,
  notFoundTtl: undefined,
  maxTtl: 1_000 * HOUR,
  honorUpstream: true,
  errors: "never",
  honorClient: false,
  clientFloor: 0,
  clientTtl: 0,
  staleWhileRevalidate: 0,
  staleIfError: 0,
  forwardRequestHeaders: [],
  forwardResponseHeaders: "*",
  sharedAuthorization: false,
};

export function policy(changes: Partial<CachePolicy> = {}): CachePolicy {
  return { ...UPSTREAM_ONLY, ...changes };
}
