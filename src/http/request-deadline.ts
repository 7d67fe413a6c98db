import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { Upstream } from "../upstream/upstream.ts";

/** When a request must be answered, given the upstream it goes to. */
export type DeadlineOf = (upstream: Upstream) => Instant;

/** Seconds, with or without a fraction. */
const SECONDS = /^[0-9]{1,6}(?:\.[0-9]{1,3})?$/;

/** The client's own `Request-Timeout`. */
function timeAsked(headers: IncomingHttpHeaders): Duration {
  const asked = headers["request-timeout"];
  const seconds = typeof asked === "string" && SECONDS.test(asked) ? Number(asked) : 0;
  return seconds > 0 ? seconds * 1000 : Infinity;
}

/**
 * For a request that goes to one registry from now on: all attempts together have the upstream's timeout, or the
 * client's own `Request-Timeout` in seconds where that is shorter.
 */
export function deadlineFromNow(headers: IncomingHttpHeaders, clock: Clock): DeadlineOf {
  const startedAt = clock.now();
  return (upstream) => startedAt + Math.min(timeAsked(headers), upstream.config.timeout);
}

/**
 * For a request that asks one registry after the other and does without those that fail: each has its whole timeout from
 * when it is asked, for one that hangs must not take the time of the next. The client's own is for all together.
 */
export function deadlineWhenAsked(headers: IncomingHttpHeaders, clock: Clock): DeadlineOf {
  const last = clock.now() + timeAsked(headers);
  return (upstream) => Math.min(last, clock.now() + upstream.config.timeout);
}
