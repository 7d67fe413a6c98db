import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Instant } from "../clock.ts";
import type { Upstream } from "../upstream/upstream.ts";

/** Seconds, with or without a fraction. */
const SECONDS = /^[0-9]{1,6}(?:\.[0-9]{1,3})?$/;

/**
 * When a request that began at `startedAt` must be answered: all attempts together within the upstream's timeout, or
 * within the client's own `Request-Timeout` in seconds where that is shorter.
 */
export function deadlineOf(upstream: Upstream, headers: IncomingHttpHeaders, startedAt: Instant): Instant {
  const { timeout } = upstream.config;
  const asked = headers["request-timeout"];
  const seconds = typeof asked === "string" && SECONDS.test(asked) ? Number(asked) : 0;
  return startedAt + (seconds > 0 ? Math.min(seconds * 1000, timeout) : timeout);
}

/** {@link deadlineOf} for a request that begins now. */
export function deadlineFromNow(headers: IncomingHttpHeaders, clock: Clock): (upstream: Upstream) => Instant {
  const startedAt = clock.now();
  return (upstream) => deadlineOf(upstream, headers, startedAt);
}
