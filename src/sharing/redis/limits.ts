import type { Rate } from "../../config/schema.ts";
import type { Grant, Limiter } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import type { RedisReplicas } from "./replicas.ts";

/** Counts of calls over all replicas, kept by Redis. While it is away, this replica counts its part of them itself. */
export class RedisLimiter implements Limiter {
  private readonly connection: RedisConnection;
  private readonly keys: Keys;
  private readonly replicas: RedisReplicas;
  private readonly here: Limiter;

  constructor(connection: RedisConnection, keys: Keys, { replicas, here }: { replicas: RedisReplicas; here: Limiter }) {
    this.connection = connection;
    this.keys = keys;
    this.replicas = replicas;
    this.here = here;
  }

  async take(key: string, windows: readonly Rate[]): Promise<Grant> {
    // The script's names of the counts are of whole milliseconds.
    const whole = windows.map(({ requests, per }) => ({ requests, per: Math.ceil(per) }));
    const numbers = whole.flatMap(({ requests, per }) => [per, requests]);
    const answer = await this.connection.ask("limit", (redis) => redis.takeCall(this.keys.limit(key), ...numbers));
    if (answer === undefined) {
      const parts = whole.map((window) => this.partOf(window));
      return this.here.take(key, parts);
    }
    const [isGranted, retryIn] = answer;
    return isGranted === 1 ? { granted: true } : { granted: false, retryIn: Math.max(retryIn, 1) };
  }

  /** The part of one replica; where there are more replicas than calls, one call in a window that is longer. */
  private partOf({ requests, per }: Rate): Rate {
    const count = this.replicas.count();
    if (requests >= count) return { requests: Math.floor(requests / count), per };
    return { requests: 1, per: Math.ceil((per * count) / requests) };
  }
}
