import type { CachePolicy } from "../cache/types.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import { cachedRecord, type CachedOperation } from "../spec/operations.ts";

/** Makes the policy of one endpoint's answers. A 404 is kept of an instrument alone: that of an info or a page says nothing. */
export function policyOf({ cache, mode }: UpstreamConfig, operation: CachedOperation): CachePolicy {
  const { address, maxTtl } = cachedRecord(operation);
  const { honorUpstream, clientTtl, staleWhileRevalidate, staleIfError, forwardResponseHeaders } = cache;
  return {
    ttl: cache.ttl[operation],
    maxTtl,
    notFoundTtl: address === "id" ? cache.ttl.notFound : undefined,
    honorUpstream,
    clientTtl,
    staleWhileRevalidate,
    staleIfError,
    forwardResponseHeaders,
    isCacheOnly: mode === "cache-only",
  };
}
