import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { StreamedCall, UpstreamCall } from "./call.ts";

/** More than fail at once as a rule; a client that makes up others pushes out its own. */
const MAX_REQUESTS = 256;

/** Requests, by digest, of which something is known for `ttl`: bounded, whatever clients send. */
export class RecentRequests<Value extends {}> {
  private readonly clock: Clock;
  private readonly ttl: Duration;
  private readonly values: LRUCache<string, Value>;
  private newest: Instant = -Infinity;

  constructor(clock: Clock, ttl: Duration) {
    this.clock = clock;
    this.ttl = ttl;
    this.values = new LRUCache({ max: MAX_REQUESTS, ttl, perf: clock, ttlResolution: 0 });
  }

  /** Nothing is known, so that no digest has to be made. */
  get isEmpty(): boolean {
    return this.values.size === 0 || this.clock.now() - this.newest > this.ttl;
  }

  get(digest: string): Value | undefined {
    return this.values.get(digest);
  }

  set(digest: string, value: Value): void {
    this.newest = this.clock.now();
    this.values.set(digest, value);
  }

  delete(digest: string): void {
    this.values.delete(digest);
  }
}

type AnyCall = UpstreamCall | StreamedCall;

/** Of calls of which more than one thing is remembered. */
const digests = new WeakMap<AnyCall, string>();

/** Stands for a request: path, query and, where it is at hand, body. Ids and bodies themselves are kept nowhere. */
export function digestOf(call: AnyCall): string {
  const known = digests.get(call);
  if (known !== undefined) return known;
  const { method, path, body } = call;
  const hash = createHash("sha256").update(`${method} ${path}\n`);
  if (Buffer.isBuffer(body)) hash.update(body);
  const digest = hash.digest("base64url");
  digests.set(call, digest);
  return digest;
}
