/** Share of requests that may fail over a month. */
export const ERROR_BUDGET = 0.001;

/**
 * From where on something is worth an alert: the process and Prometheus find it alike. A share is exceeded, of so many at
 * least; what is slow takes longer than its seconds, which are a bound of the histogram's buckets.
 */
export const BOUNDS = {
  /** A month's budget is gone in two days. */
  requestsFail: { share: 14.4 * ERROR_BUDGET },
  hitsSlow: { seconds: 0.1, share: 0.01, least: 100 },
  staleAnswers: { share: 0.2 },
  /** Of however few, and of each kind. */
  callsFail: { share: 0.5, least: 3 },
  callsSlow: { seconds: 2.5, share: 0.1, least: 10 },
  /** A part of the calls. */
  registryErrors: { share: 0.05, least: 10 },
  rateLimitUsed: { share: 0.9 },
  redisRefuses: { share: 0.02, least: 10 },
  sealsBroken: { count: 3 },
  eventLoopBusy: { share: 0.9 },
  /** NTP keeps clocks within some. */
  clocksApart: { milliseconds: 2_000 },
  certificateEnds: { days: 3 },
  certificateEndsSoon: { days: 14 },
} as const;
