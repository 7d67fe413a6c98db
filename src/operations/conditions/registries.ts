import { CALL_KIND } from "../../observe/metrics/labels.ts";
import { countedState, type UpstreamStatus } from "../../upstream/status.ts";
import { sayCount, sayDuration } from "../../words/quantity.ts";
import { because, BOUNDS, type Condition, ofEach } from "./condition.ts";
import { callsOf, isDown, lastErrorOf, nearlyAllFailed, sayDown } from "./calls.ts";

function oddNodes(nodes: UpstreamStatus["nodes"]): UpstreamStatus["nodes"] {
  return nodes.filter((node) => countedState(node) === "wrong-admin");
}

/** What may be wrong with a registry, its nodes, or the way to them; from the most to the least urgent. */
export const REGISTRY_CONDITIONS = [
  {
    alert: "RegistryGatewayAdminMismatch",
    severity: "page",
    subject: "registry",
    isCause: true,
    for: "0m",
    find: ofEach(({ name, state, isContested, nodes, lastError }) => {
      const isContradicted = state === "disabled" && !isContested && lastError !== undefined;
      if (state !== "wrong-admin" && !isContradicted) return undefined;
      const what = isContradicted ? "is disabled" : "serves another registry than configured";
      return `${name} ${what}${because(oddNodes(nodes)[0]?.lastError ?? lastError)}`;
    }),
  },
  {
    alert: "RegistryGatewayNodeAdminMismatch",
    severity: "warning",
    subject: "node",
    isCause: true,
    for: "0m",
    find: ofEach(({ name, state, nodes, lastError }) => {
      const odd = oddNodes(nodes);
      if (odd.length === 0 || state === "wrong-admin" || state === "disabled") return undefined;
      return `${name} has ${sayCount(odd.length, "node")} of another registry${because(odd[0]!.lastError ?? lastError)}`;
    }),
  },
  {
    alert: "RegistryGatewayAdminContested",
    severity: "page",
    subject: "registry",
    isCause: true,
    for: "0m",
    find: ofEach(({ name, isContested, lastError }) =>
      isContested ? `${name} is not used, for another upstream claims its admin${because(lastError)}` : undefined,
    ),
  },
  {
    alert: "RegistryGatewayAgreementMissing",
    severity: "page",
    subject: "registry",
    isCause: true,
    for: "5m",
    find: ofEach(({ name, agreement, lastError }) =>
      agreement === undefined || agreement.isReached
        ? undefined
        : `${name}: ${agreement.agreeing} of the ${agreement.needed} nodes that are needed name the same admin${because(lastError)}`,
    ),
  },
  {
    alert: "RegistryGatewayAllNodesDown",
    severity: "page",
    subject: "registry",
    isCause: true,
    for: "5m",
    find: ofEach((upstream) =>
      isDown(upstream) ? `${upstream.name} ${sayDown(upstream)}${because(lastErrorOf(upstream))}` : undefined,
    ),
  },
  {
    alert: "RegistryGatewayCallsFail",
    severity: "page",
    subject: "registry",
    isCause: false,
    for: "1m",
    find: ofEach((upstream, facts) =>
      nearlyAllFailed(upstream, facts, { kind: "other", what: "calls for transfers and allocations" }),
    ),
  },
  {
    alert: "RegistryGatewayNodeDown",
    severity: "warning",
    subject: "node",
    isCause: false,
    for: "10m",
    find: ofEach(({ name, state, nodes, lastError }) => {
      const down = nodes.filter((node) => ["ejected", "unproved"].includes(countedState(node)));
      const up = nodes.filter((node) => node.state === "up").length;
      if (state === "disabled" || down.length === 0 || up === 0) return undefined;
      return `${name} has ${up} of ${nodes.length} nodes up${because(down[0]!.lastError ?? lastError)}`;
    }),
  },
  {
    alert: "RegistryGatewayRegistrySlow",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "5m",
    find: ofEach(({ name }, { recent }) =>
      CALL_KIND.map((kind) => ({
        kind,
        slow: recent.risen(`slow ${kind} ${name}`),
        all: recent.risen(`attempts ${kind} ${name}`),
      }))
        .filter(({ slow, all }) => all >= BOUNDS.callsSlow.least && slow / all > BOUNDS.callsSlow.share)
        .map(
          ({ kind, slow, all }) =>
            `${name}: ${slow} of ${all} calls (${kind}) took more than ${BOUNDS.callsSlow.seconds} s in the last ${sayDuration(recent.period)}`,
        ),
    ),
  },
  {
    alert: "RegistryGatewayMetadataFails",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "1m",
    find: ofEach((upstream, facts) =>
      nearlyAllFailed(upstream, facts, { kind: "metadata", what: "calls for metadata" }),
    ),
  },
  {
    alert: "RegistryGatewayRegistryErrors",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "5m",
    find: ofEach(({ name }, { recent }) =>
      CALL_KIND.map((kind) => callsOf(name, recent, kind))
        .filter(
          ({ failed, all }) => failed >= BOUNDS.registryErrors.least && failed / all > BOUNDS.registryErrors.share,
        )
        .map(
          ({ kind, failed, all }) =>
            `${name}: ${failed} of ${all} calls (${kind}) failed in the last ${sayDuration(recent.period)}`,
        ),
    ),
  },
  {
    alert: "RegistryGatewayRetryAmplification",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "10m",
    find: "outside",
  },
  {
    alert: "RegistryGatewayBreakerOpen",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "1m",
    find: ofEach(({ name, breaker, lastError }) =>
      breaker === "closed" ? undefined : `${name}: its circuit breaker is ${breaker}${because(lastError)}`,
    ),
  },
  {
    alert: "RegistryGatewaySheds",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "5m",
    find: ofEach(({ name }, { recent }) =>
      (["queue", "rate-limit"] as const)
        .map((reason) => ({ reason, refused: recent.risen(`refused ${reason} ${name}`) }))
        .filter(({ refused }) => refused > 0)
        .map(
          ({ reason, refused }) =>
            `${name}: ${sayCount(refused, "call")} refused (${reason}) in the last ${sayDuration(recent.period)}`,
        ),
    ),
  },
  {
    alert: "RegistryGatewayRateLimitNearlyUsed",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "5m",
    find: ofEach(({ name, budget, budgetLeft }) => {
      if (budget === undefined || budgetLeft === undefined) return undefined;
      if (1 - budgetLeft / budget.requests <= BOUNDS.rateLimitUsed.share) return undefined;
      return `${name}: ${budgetLeft} of ${budget.requests} calls of rateLimit are left`;
    }),
  },
  {
    alert: "RegistryGatewayNodeOutOfStep",
    severity: "page",
    subject: "registry",
    isCause: true,
    for: "0m",
    find: ofEach(({ name, nodes }, { recent }) =>
      nodes
        .map(({ outOfStep }, at) => ({ outOfStep, at }))
        .filter(({ at }) => recent.risen(`out-of-step ${name} ${at}`) > 0)
        .map(
          ({ outOfStep, at }) =>
            `${name}: node ${at} has given answers to other requests than they came for, ${outOfStep} times since the start`,
        ),
    ),
  },
  {
    alert: "RegistryGatewaySupportedApisChanged",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "0m",
    find: ofEach(({ name }, { recent }) =>
      recent.risen(`apis ${name}`) > 0 ? `${name}: its info names other APIs than before` : undefined,
    ),
  },
  {
    alert: "RegistryGatewayCredentialUnusable",
    severity: "warning",
    subject: "registry",
    isCause: true,
    for: "0m",
    find: ({ gauges }) =>
      gauges.credentialUnusable.map(({ upstream, key }) => ({
        upstream: upstream!,
        text: `${upstream}: what ${key} names cannot be read or fetched, or is no good`,
      })),
  },
] as const satisfies readonly Condition[];
