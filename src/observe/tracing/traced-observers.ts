import type { CacheObserver } from "../../cache/resource.ts";
import type { RedisObserver } from "../../sharing/redis/observer.ts";
import type { Tracing } from "./tracing.ts";

/** Notes in the trace of a request, besides `observer`, what the cache made of it. */
export function traceCache(observer: CacheObserver, tracing: Tracing): CacheObserver {
  return {
    ...observer,
    lookup(key, tier, outcome) {
      observer.lookup(key, tier, outcome);
      tracing.current()?.annotate({ "registry_gateway.cache.tier": tier, "registry_gateway.cache.outcome": outcome });
    },
    collapsed(key, scope) {
      observer.collapsed(key, scope);
      tracing.current()?.annotate({ "registry_gateway.cache.collapsed": scope });
    },
    servedStale(key, reason) {
      observer.servedStale(key, reason);
      tracing.current()?.annotate({ "registry_gateway.cache.stale": reason });
    },
    skipped(key, reason) {
      observer.skipped(key, reason);
      tracing.current()?.annotate({ "registry_gateway.cache.skipped": reason });
    },
  };
}

/** Notes in the trace of a request, besides `observer`, the commands to Redis that it waited for. */
export function traceRedis(observer: RedisObserver, tracing: Tracing): RedisObserver {
  return {
    ...observer,
    commandEnded(name, outcome, duration) {
      observer.commandEnded(name, outcome, duration);
      tracing.current()?.note(`redis ${name}`, duration, { "registry_gateway.outcome": outcome });
    },
  };
}
