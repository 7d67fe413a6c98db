import { sayCount, sayDuration } from "../../words/quantity.ts";
import { BOUNDS, type Condition, ofAll } from "./condition.ts";

/** What clients get; from the most to the least urgent. */
export const TRAFFIC_CONDITIONS = [
  {
    alert: "RegistryGatewayErrorBudgetBurnsFast",
    severity: "page",
    subject: "gateway",
    isCause: false,
    for: "2m",
    find: ofAll(({ recent }) => {
      const [failed, all] = [recent.risenOfAll("failed requests"), recent.risenOfAll("requests")];
      if (failed === 0 || failed / all <= BOUNDS.requestsFail.share) return undefined;
      return `${failed} of ${sayCount(all, "request")} failed in the last ${sayDuration(recent.period)}`;
    }),
  },
  {
    alert: "RegistryGatewayErrorBudgetBurnsSlowly",
    severity: "warning",
    subject: "gateway",
    isCause: false,
    for: "15m",
    find: "outside",
  },
  {
    alert: "RegistryGatewaySlow",
    severity: "warning",
    subject: "gateway",
    isCause: false,
    for: "5m",
    find: ofAll(({ recent }) => {
      const [slow, all] = [recent.risen("hits slow"), recent.risen("hits")];
      if (all < BOUNDS.hitsSlow.least || slow / all <= BOUNDS.hitsSlow.share) return undefined;
      return `${slow} of ${all} hits took more than 100 ms in the last ${sayDuration(recent.period)}`;
    }),
  },
  {
    alert: "RegistryGatewayAgeNearPromise",
    severity: "warning",
    subject: "gateway",
    isCause: false,
    // The rest of a window may be short: of ten minutes two.
    for: "0m",
    find: "outside",
  },
  {
    alert: "RegistryGatewayStaleAnswers",
    severity: "warning",
    subject: "gateway",
    isCause: false,
    for: "10m",
    find: ofAll(({ recent }) => {
      const [stale, all] = [recent.risenOfAll("stale answers"), recent.risenOfAll("answers")];
      if (all < 20 || stale / all <= BOUNDS.staleAnswers.share) return undefined;
      return `${stale} of ${all} cached answers of the last ${sayDuration(recent.period)} were stale`;
    }),
  },
  {
    alert: "RegistryGatewayHitRatioDropped",
    severity: "warning",
    subject: "gateway",
    isCause: false,
    for: "15m",
    find: "outside",
  },
] as const satisfies readonly Condition[];
