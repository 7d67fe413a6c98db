import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { Upstream } from "../upstream/upstream.ts";

/** Seconds, with or without a fraction. */
const SECONDS = /^[0-9]{1,6}(?:\.[0-9]{1,3})?$/;

/**
 * When a request that began at `startedAt` must be answered: all attempts together within the upstream's timeout, or
 * within the client's own `Request-Timeout` in seconds where that is shorter.
 */
export function deadlineOf(upstream: Upstream, headers: IncomingHttpHeaders, startedAt: Instant): Instant {
  return startedAt + Math.min(timeAsked(headers), upstream.config.timeout);
}

/** The client's own `Request-Timeout`. */
function timeAsked(headers: IncomingHttpHeaders): Duration {
  const asked = headers["request-timeout"];
  const seconds = typeof asked === "string" && SECONDS.test(asked) ? Number(asked) : 0;
  return seconds > 0 ? seconds * 1000 : Infinity;
}

/** {@link deadlineOf} for a request that begins now. */
export function deadlineFromNow(headers: IncomingHttpHeaders, clock: Clock): (upstream: Upstream) => Instant {
  const startedAt = clock.now();
  return (upstream) => deadlineOf(upstream, headers, startedAt);
}

/**
 * For a request that asks one registry after the other and does without those that fail: each has its whole timeout from
 * when it is asked, for one that hangs must not take the time of the next. The client's own is for all together.
 */
export function deadlineWhenAsked(headers: IncomingHttpHeaders, clock: Clock): (upstream: Upstream) => Instant {
  const last = clock.now() + timeAsked(headers);
  return (upstream) => Math.min(last, clock.now() + upstream.config.timeout);
}
