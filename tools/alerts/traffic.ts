import { BOUNDS, ERROR_BUDGET } from "../../src/operations/conditions/condition.ts";
import type { TRAFFIC_CONDITIONS } from "../../src/operations/conditions/traffic.ts";
import { sum } from "../promql.ts";
import { errorRatio, HIT_RATIO, JOB, q, slowShare, STALE_RATIO } from "../recording.ts";
import { type AlertsOf, atLeast } from "./alert.ts";

const OPERATION = ["job", "operation"];

/** Answers that stood in for a failure while no more of their window was used. */
const standIns = (le: string) =>
  sum(OPERATION, q.over("10m").rate("windowUsed", {}, "_bucket").replace("[", `{le="${le}"}[`));

/** Of what clients get. */
export const TRAFFIC_ALERTS: AlertsOf<typeof TRAFFIC_CONDITIONS> = {
  RegistryGatewayErrorBudgetBurnsFast: {
    conditions: [
      { value: errorRatio("1h"), is: ">", bound: BOUNDS.requestsFail.share },
      { value: errorRatio("5m"), is: ">", bound: BOUNDS.requestsFail.share },
    ],
    summary: "{{ $value | humanizePercentage }} of requests fail: a month's error budget (0.1 %) is gone in two days",
    runbook: {
      means:
        "Clients get 5xx, now, and more than the budget allows over the last hour. Wallets that send transfers fail; cached lists may still work.",
      look: "Overview: Errors by endpoint, Errors by code, Health. One upstream only: it is the registry. All at once: the gateway, its network or its last deployment.",
      act: "502 and 504: see RegistryGatewayAllNodesDown. 503: see RegistryGatewaySheds. 500: a fault of the gateway: take the log lines with level error, roll back the last deployment.",
    },
  },
  RegistryGatewayErrorBudgetBurnsSlowly: {
    conditions: [
      { value: errorRatio("6h"), is: ">", bound: 6 * ERROR_BUDGET },
      { value: errorRatio("30m"), is: ">", bound: 6 * ERROR_BUDGET },
    ],
    summary: "{{ $value | humanizePercentage }} of requests fail: a month's error budget (0.1 %) is gone in five days",
    runbook: {
      means: "A small but steady share of requests ends with 5xx.",
      look: "Overview: Errors by endpoint. Upstream dashboard: Failed calls by reason. Log lines with status 5xx have reason and cause.",
      act: "As RegistryGatewayErrorBudgetBurnsFast, within a day.",
    },
  },
  RegistryGatewaySlow: {
    conditions: [
      {
        value: slowShare("requestDuration", JOB, BOUNDS.hitsSlow.seconds, { outcome: "hit" }),
        is: ">",
        bound: BOUNDS.hitsSlow.share,
      },
      atLeast(BOUNDS.hitsSlow.least, sum(JOB, q.over("10m").increase("requestDuration", { outcome: "hit" }, "_count"))),
    ],
    summary: "{{ $value | humanizePercentage }} of the answers from memory take more than 100 ms",
    runbook: {
      means:
        "An answer from memory takes a millisecond: the process or its machine has too much to do, or clients read slowly.",
      look: "Overview: Latency by outcome, Event loop delay, CPU, Requests by endpoint.",
      act: "As RegistryGatewayEventLoopBusy. Only some replicas: look at their machines.",
    },
  },
  RegistryGatewayAgeNearPromise: {
    conditions: [
      {
        value: `(${standIns("+Inf")} - ${standIns("0.8")}) / ${sum(OPERATION, q.over("10m").rate("cacheAnswers"))}`,
        is: ">",
        bound: 0.01,
      },
    ],
    summary:
      "{{ $labels.operation }}: one answer in a hundred has used most of the time for which it may be served stale",
    runbook: {
      means: "Answers come from before an outage; soon they may not be served any more and clients get errors.",
      look: "Overview: Stale windows used, Age served, Stale answers by reason, Health: which registry has not been reached for so long?",
      act: "Bring the registry back. If old data is better than none, raise cache.staleIfError of that upstream and reload: it applies to what is stored from then on.",
    },
  },
  RegistryGatewayStaleAnswers: {
    conditions: [{ value: STALE_RATIO, is: ">", bound: BOUNDS.staleAnswers.share }],
    summary: "{{ $value | humanizePercentage }} of cached answers are stale",
    runbook: {
      means: "Refreshes fail or come late. Clients get data older than its time to live, marked as stale.",
      look: "Overview: Stale answers by reason. stale-if-error: a registry fails. stale-while-revalidate: refreshes are slow, or entries are asked for more rarely than they expire.",
      act: "stale-if-error: see the registry. stale-while-revalidate alone: harmless; longer cache.ttl makes it rarer.",
    },
  },
  RegistryGatewayHitRatioDropped: {
    conditions: [
      { value: `${HIT_RATIO} / avg_over_time(${HIT_RATIO}[1d])`, is: "<", bound: 0.6 },
      { value: sum(JOB, q.over("30m").rate("cacheAnswers")), is: ">", bound: 0.1 },
    ],
    summary: "The hit ratio is {{ $value | humanizePercentage }} of what it was over the last day",
    runbook: {
      means: "More requests reach the registries, and their rate limits come nearer.",
      look: "Overview: Answers not stored, by reason; Entries evicted; Purges; Redis up. A registry may have begun to send no-store.",
      act: "Evictions: raise cache.memory.maxBytes. no-store or private: ask the registry, or set honorUpstream: false for it. unissued-token: a client makes up page tokens.",
    },
  },
};
