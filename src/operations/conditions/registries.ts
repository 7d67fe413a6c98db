import { CALL_KIND } from "../../observe/metrics/labels.ts";
import { countedState, type UpstreamStatus } from "../../upstream/status.ts";
import { sayCount, sayDuration } from "../../words/quantity.ts";
import { BOUNDS } from "./bounds.ts";
import { because, type Condition } from "./condition.ts";
import { failedCalls, isDown, lastErrorOf, nearlyAllFailed, sayDown } from "./calls.ts";

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
    find: ({ upstreams }) =>
      upstreams.flatMap(({ name, state, isContested, nodes, lastError }) => {
        const isContradicted = state === "disabled" && !isContested && lastError !== undefined;
        if (state !== "wrong-admin" && !isContradicted) return [];
        const what = isContradicted ? "is disabled" : "serves another registry than configured";
        return [{ upstream: name, text: `${name} ${what}${because(oddNodes(nodes)[0]?.lastError ?? lastError)}` }];
      }),
  },
  {
    alert: "RegistryGatewayNodeAdminMismatch",
    severity: "warning",
    subject: "node",
    isCause: true,
    for: "0m",
    find: ({ upstreams }) =>
      upstreams.flatMap(({ name, state, nodes, lastError }) => {
        const odd = oddNodes(nodes);
        if (odd.length === 0 || state === "wrong-admin" || state === "disabled") return [];
        const text = `${name} has ${sayCount(odd.length, "node")} of another registry${because(odd[0]!.lastError ?? lastError)}`;
        return [{ upstream: name, text }];
      }),
  },
  {
    alert: "RegistryGatewayAdminContested",
    severity: "page",
    subject: "registry",
    isCause: true,
    for: "0m",
    find: ({ upstreams }) =>
      upstreams.flatMap(({ name, isContested, lastError }) =>
        isContested
          ? [
              {
                upstream: name,
                text: `${name} is not used, for another upstream claims its admin${because(lastError)}`,
              },
            ]
          : [],
      ),
  },
  {
    alert: "RegistryGatewayAgreementMissing",
    severity: "page",
    subject: "registry",
    isCause: true,
    for: "5m",
    find: ({ upstreams }) =>
      upstreams.flatMap(({ name, agreement, lastError }) =>
        agreement === undefined || agreement.isReached
          ? []
          : [
              {
                upstream: name,
                text: `${name}: ${agreement.agreeing} of the ${agreement.needed} nodes that are needed name the same admin${because(lastError)}`,
              },
            ],
      ),
  },
  {
    alert: "RegistryGatewayAllNodesDown",
    severity: "page",
    subject: "registry",
    isCause: true,
    for: "5m",
    find: ({ upstreams }) =>
      upstreams.filter(isDown).map((upstream) => ({
        upstream: upstream.name,
        text: `${upstream.name} ${sayDown(upstream)}${because(lastErrorOf(upstream))}`,
      })),
  },
  {
    alert: "RegistryGatewayCallsFail",
    severity: "page",
    subject: "registry",
    isCause: false,
    for: "1m",
    find: (facts) => nearlyAllFailed(facts, "other", "calls for transfers and allocations"),
  },
  {
    alert: "RegistryGatewayNodeDown",
    severity: "warning",
    subject: "node",
    isCause: false,
    for: "10m",
    find: ({ upstreams }) =>
      upstreams.flatMap(({ name, state, nodes, lastError }) => {
        const down = nodes.filter((node) => ["ejected", "unproved"].includes(countedState(node)));
        const up = nodes.filter((node) => node.state === "up").length;
        const isSome = state !== "disabled" && down.length > 0 && up > 0;
        const text = `${name} has ${up} of ${nodes.length} nodes up${because(down[0]?.lastError ?? lastError)}`;
        return isSome ? [{ upstream: name, text }] : [];
      }),
  },
  {
    alert: "RegistryGatewayRegistrySlow",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "5m",
    find: ({ upstreams, recent }) =>
      upstreams.flatMap(({ name }) =>
        CALL_KIND.map((kind) => ({
          kind,
          slow: recent.risen(`slow ${kind} ${name}`),
          all: recent.risen(`attempts ${kind} ${name}`),
        }))
          .filter(({ slow, all }) => all >= BOUNDS.callsSlow.least && slow / all > BOUNDS.callsSlow.share)
          .map(({ kind, slow, all }) => ({
            upstream: name,
            text: `${name}: ${slow} of ${all} calls (${kind}) took more than ${BOUNDS.callsSlow.seconds} s in the last ${sayDuration(recent.period)}`,
          })),
      ),
  },
  {
    alert: "RegistryGatewayMetadataFails",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "1m",
    find: (facts) => nearlyAllFailed(facts, "metadata", "calls for metadata"),
  },
  {
    alert: "RegistryGatewayRegistryErrors",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "5m",
    find: (facts) =>
      CALL_KIND.flatMap((kind) =>
        failedCalls(facts, kind)
          .filter(
            ({ failed, all }) => failed >= BOUNDS.registryErrors.least && failed / all > BOUNDS.registryErrors.share,
          )
          .map(({ upstream, failed, all }) => ({
            upstream,
            text: `${upstream}: ${failed} of ${all} calls (${kind}) failed in the last ${sayDuration(facts.recent.period)}`,
          })),
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
    find: ({ upstreams }) =>
      upstreams
        .filter(({ breaker }) => breaker !== "closed")
        .map(({ name, breaker, lastError }) => ({
          upstream: name,
          text: `${name}: its circuit breaker is ${breaker}${because(lastError)}`,
        })),
  },
  {
    alert: "RegistryGatewaySheds",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "5m",
    find: ({ upstreams, recent }) =>
      upstreams.flatMap(({ name }) =>
        (["queue", "rate-limit"] as const)
          .map((reason) => ({ reason, refused: recent.risen(`refused ${reason} ${name}`) }))
          .filter(({ refused }) => refused > 0)
          .map(({ reason, refused }) => ({
            upstream: name,
            text: `${name}: ${sayCount(refused, "call")} refused (${reason}) in the last ${sayDuration(recent.period)}`,
          })),
      ),
  },
  {
    alert: "RegistryGatewayRateLimitNearlyUsed",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "5m",
    find: ({ upstreams }) =>
      upstreams
        .filter(
          ({ budget, budgetLeft }) =>
            budget !== undefined &&
            budgetLeft !== undefined &&
            1 - budgetLeft / budget.requests > BOUNDS.rateLimitUsed.share,
        )
        .map(({ name, budget, budgetLeft }) => ({
          upstream: name,
          text: `${name}: ${budgetLeft} of ${budget!.requests} calls of rateLimit are left`,
        })),
  },
  {
    alert: "RegistryGatewayNodeOutOfStep",
    severity: "page",
    subject: "registry",
    isCause: true,
    for: "0m",
    find: ({ upstreams, recent }) =>
      upstreams.flatMap(({ name, nodes }) =>
        nodes
          .map((node, at) => ({ ...node, at }))
          .filter(({ at }) => recent.risen(`out-of-step ${name} ${at}`) > 0)
          .map(({ at, outOfStep }) => {
            const text = `${name}: node ${at} has given answers to other requests than they came for, ${outOfStep} times since the start`;
            return { upstream: name, text };
          }),
      ),
  },
  {
    alert: "RegistryGatewaySupportedApisChanged",
    severity: "warning",
    subject: "registry",
    isCause: false,
    for: "0m",
    find: ({ upstreams, recent }) =>
      upstreams
        .filter(({ name }) => recent.risen(`apis ${name}`) > 0)
        .map(({ name }) => ({ upstream: name, text: `${name}: its info names other APIs than before` })),
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
