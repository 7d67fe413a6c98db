import type { CallKind } from "../../src/observe/metrics/labels.ts";
import type { REGISTRY_CONDITIONS } from "../../src/operations/conditions/registries.ts";
import { BOUNDS } from "../../src/operations/conditions/condition.ts";
import { aggregate, sum } from "../promql.ts";
import {
  AMPLIFICATION,
  BUDGET_USED,
  failureRatio,
  failures,
  q,
  slowShare,
  UPSTREAM,
  UPSTREAM_KIND,
} from "../recording.ts";
import { above0, type Alert, type AlertsOf, atLeast } from "./alert.ts";

/** 1 where no node is used, for they name another admin than configured or contradict each other. */
const NOT_ITSELF = aggregate("max", UPSTREAM, q.series("upstreamState", { state: ["wrong-admin", "disabled"] }));

const ODD_NODE = {
  look: 'GET /status on the operations listener: lastError names both admins. The log: "node names another admin".',
  act: "Ask the registry's operator whether the URL or the admin changed; never set the new admin unasked. Then correct urls or admin and reload.",
};

/** Most of the calls of a kind fail, of however few. */
const nearlyAllFail = (kind: CallKind): Alert["conditions"] => [
  { value: failureRatio("10m"), is: ">", bound: BOUNDS.callsFail.share },
  atLeast(BOUNDS.callsFail.least, failures("10m", kind)),
];

/** Of registries, their nodes, and the way to them. */
export const REGISTRY_ALERTS: AlertsOf<typeof REGISTRY_CONDITIONS> = {
  RegistryGatewayAdminMismatch: {
    conditions: above0(`${NOT_ITSELF} - ${aggregate("max", UPSTREAM, q.series("adminContested"))}`),
    summary: "{{ $labels.upstream }}: it serves another registry than configured, or its nodes contradict each other",
    runbook: {
      means: "None of its nodes gets requests, so nothing is misrouted, and the registry is out.",
      look: ODD_NODE.look,
      act: ODD_NODE.act,
    },
  },
  RegistryGatewayNodeAdminMismatch: {
    conditions: above0(
      `${aggregate("max", UPSTREAM, q.series("upstreamNodes", { state: "wrong-admin" }))} * (${NOT_ITSELF} < bool 1)`,
    ),
    summary: "{{ $labels.upstream }}: {{ $value | humanize }} of its nodes serve another registry than configured",
    runbook: {
      means:
        "The node gets no requests, so nothing is misrouted; others that are up take its calls. Where there are none, see RegistryGatewayAllNodesDown.",
      look: ODD_NODE.look,
      act: ODD_NODE.act,
    },
  },
  RegistryGatewayAdminContested: {
    conditions: above0(aggregate("max", UPSTREAM, q.series("adminContested"))),
    summary: "{{ $labels.upstream }}: another upstream names the same admin, and neither is used",
    runbook: {
      means:
        "Two upstreams without a configured admin claim to be the same registry; one of them may be an impostor. Both are out, and what was cached of the admin is gone.",
      look: "GET /status on the operations listener: isContested, and lastError names both upstreams.",
      act: "Find out from the registry's operator which URL is right, set admin for that upstream and reload: it is used at once. Then remove the other one.",
    },
  },
  RegistryGatewayAgreementMissing: {
    conditions: above0(aggregate("max", UPSTREAM, q.series("agreementMissing"))),
    summary: "{{ $labels.upstream }}: {{ $value }} more nodes have to name the same admin before any is used",
    runbook: {
      means:
        "agreement.admin asks for more nodes than name the same admin, so none of them gets a request. Metadata is served from the cache until staleIfError ends. A node's word counts while it is away: nodes were away since the start of a replica, or name another admin.",
      look: "GET /status on the operations listener: agreement, and of each node the admin that it named and its last error.",
      act: "Nodes away: bring them back, or correct urls. Nodes that name another admin: as RegistryGatewayNodeAdminMismatch. Do not lower agreement.admin to make this go away while nodes contradict each other.",
    },
  },
  RegistryGatewayAllNodesDown: {
    conditions: [
      {
        // Another alert says whose registry it is, and an operator has nothing asked of it on purpose.
        value: `${aggregate("max", UPSTREAM, q.series("upstreamNodes", { state: "up" }))} * (${aggregate("max", UPSTREAM, q.series("breakerState"))} < bool 1) + ${NOT_ITSELF} + ${aggregate("max", UPSTREAM, q.series("upstreamMode", { mode: "cache-only" }))}`,
        is: "==",
        bound: 0,
      },
    ],
    summary: "{{ $labels.upstream }}: no node takes requests",
    runbook: {
      means:
        "Metadata is served from the cache until staleIfError ends; everything else of this registry is refused at once.",
      look: "Upstream dashboard: Failed calls by reason. refused, dns, unreachable: network or the registry is down. tls: certificates. timeout: it hangs. GET /status has the last error of each node.",
      act: "From the gateway's machine: curl the registry's /registry/metadata/v1/info. If it fails there too, report it to the registry's operator; if it only fails from here, look at DNS, egress rules and httpProxy. For a longer outage raise cache.staleIfError of this upstream and reload.",
    },
  },
  RegistryGatewayCallsFail: {
    conditions: nearlyAllFail("other"),
    summary: "{{ $labels.upstream }}: {{ $value | humanizePercentage }} of the calls fail",
    runbook: {
      means:
        "Most calls for transfers and allocations at this registry end with a 5xx or 429 of the registry, or without an answer. It counts calls, not requests, so a registry that is rarely called is named too.",
      look: "Upstream dashboard: Calls by kind and what came of them; Failed calls by reason, which has no line for a 500: that is an answer of the registry's own. Log lines of requests with this upstream have status 5xx or 429, and the reason where there is one.",
      act: "http-429: the registry wants fewer calls; set or lower rateLimit. 5xx while RegistryGatewayBreakerOpen is silent: the registry answers its info and fails the rest; report it to its operator. Otherwise as RegistryGatewayAllNodesDown.",
    },
  },
  RegistryGatewayNodeDown: {
    conditions: [
      // Each replica counts the same nodes.
      {
        value: sum(
          UPSTREAM,
          aggregate("max", [...UPSTREAM, "state"], q.series("upstreamNodes", { state: ["ejected", "unproved"] })),
        ),
        is: ">",
        bound: 0,
      },
      { value: aggregate("max", UPSTREAM, q.series("upstreamNodes", { state: "up" })), is: ">", bound: 0 },
    ],
    summary: "{{ $labels.upstream }}: {{ $value | humanize }} of its nodes have been out for ten minutes",
    runbook: {
      means:
        "The other nodes take its calls; clients notice nothing while those are well. One more that fails is an outage.",
      look: "registry-gateway nodes, or GET /status: lastError of the node that is ejected or unproved.",
      act: "Report it to the registry's operator. Where it stays away, cordon it (registry-gateway nodes cordon) or take it out of urls.",
    },
  },
  RegistryGatewayRegistrySlow: {
    conditions: [
      {
        value: slowShare("upstreamDuration", UPSTREAM_KIND, BOUNDS.callsSlow.seconds),
        is: ">",
        bound: BOUNDS.callsSlow.share,
      },
      atLeast(BOUNDS.callsSlow.least, sum(UPSTREAM_KIND, q.over("10m").increase("upstreamDuration", {}, "_count"))),
    ],
    summary:
      "{{ $labels.upstream }}: {{ $value | humanizePercentage }} of the calls ({{ $labels.kind }}) take more than 2.5 s",
    runbook: {
      means: "Clients wait; hedges and retries use up their budgets, and calls come near attemptTimeout.",
      look: "Upstream dashboard: Latency of calls, Saturation, Hedges by result. GET /status has the latency of each node.",
      act: "One node only: cordon it. All: report it to the registry's operator; raise concurrency only where they agree.",
    },
  },
  RegistryGatewayMetadataFails: {
    conditions: nearlyAllFail("metadata"),
    summary: "{{ $labels.upstream }}: {{ $value | humanizePercentage }} of the calls for metadata fail",
    runbook: {
      means: "Clients get what is in the cache until staleIfError ends, then errors.",
      look: "Upstream dashboard: Calls by kind and what came of them; Failed calls by reason, which has no line for a 500. Overview: Stale answers by reason, Age served.",
      act: "As RegistryGatewayCallsFail, within a day; sooner when RegistryGatewayAgeNearPromise fires as well.",
    },
  },
  RegistryGatewayRegistryErrors: {
    conditions: [
      { value: failureRatio("1h"), is: ">", bound: BOUNDS.registryErrors.share },
      atLeast(BOUNDS.registryErrors.least, failures("1h")),
    ],
    summary:
      "{{ $labels.upstream }}: {{ $value | humanizePercentage }} of its calls ({{ $labels.kind }}) failed in the last hour",
    runbook: {
      means:
        "A part of the calls fails, after retries. kind metadata: instruments and info; other: transfers and allocations.",
      look: "Upstream dashboard: Calls by kind and what came of them; Failed calls by reason, which has no line for a 500; Nodes by state.",
      act: "As RegistryGatewayCallsFail, within a day. One failing id or path of one client looks the same: the log lines of requests have hashes of the ids.",
    },
  },
  RegistryGatewayRetryAmplification: {
    conditions: [{ value: AMPLIFICATION, is: ">", bound: 1.15 }],
    summary: "{{ $labels.upstream }} gets {{ $value | humanize }} calls for each that is wanted",
    runbook: {
      means:
        "Retries and hedges near their budgets (20 % and 5 %): calls fail or are slow on one node and succeed on another.",
      look: "Upstream dashboard: Failed calls by reason, Hedges by result, Nodes ejected. GET /status shows which node.",
      act: "Take the bad node out of urls, or report it to the registry's operator. The budgets keep this from becoming an avalanche.",
    },
  },
  RegistryGatewayBreakerOpen: {
    conditions: above0(aggregate("max", UPSTREAM, q.series("breakerState"))),
    summary: "{{ $labels.upstream }}: the circuit breaker is open",
    runbook: {
      means:
        "Calls failed one after the other and the registry did not answer its info either, so new ones are refused at once with 503 and Retry-After. The gateway goes on asking for the info, every 8 s at least, and closes the breaker when it gets one.",
      look: "Upstream dashboard: Failed calls by reason, Checks of nodes.",
      act: "As RegistryGatewayAllNodesDown. Nothing has to be reset.",
    },
  },
  RegistryGatewaySheds: {
    conditions: above0(sum([...UPSTREAM, "reason"], q.rate("upstreamRefused", { reason: ["queue", "rate-limit"] }))),
    summary: "{{ $labels.upstream }}: calls are refused ({{ $labels.reason }})",
    runbook: {
      means:
        "queue: more calls wait than concurrency allows; clients get 503. rate-limit: the registry's limit is used up; clients get 429.",
      look: "Upstream dashboard: Saturation, Rate limit used, Latency of calls; Requests by endpoint: which client is new?",
      act: "queue: the registry is slow, or concurrency is too small for it. rate-limit: longer TTLs, or a higher limit agreed with the registry.",
    },
  },
  RegistryGatewayRateLimitNearlyUsed: {
    conditions: [{ value: BUDGET_USED, is: ">", bound: BOUNDS.rateLimitUsed.share }],
    summary: "{{ $labels.upstream }}: {{ $value | humanizePercentage }} of rateLimit is used",
    runbook: {
      means: "Background work is already held back; soon clients wait, then get 429.",
      look: "Upstream dashboard: Rate limit used, Calls to registries, Requests by endpoint. Overview: Hit ratio.",
      act: "As RegistryGatewaySheds, rate-limit.",
    },
  },
  RegistryGatewayNodeOutOfStep: {
    conditions: above0(sum([...UPSTREAM, "node"], q.over("15m").increase("nodeOutOfStep"))),
    summary: "{{ $labels.upstream }}: node {{ $labels.node }} gives answers to other requests than they come for",
    runbook: {
      means:
        "The node, or a proxy before it, answers once too often or leaves parts of answers out, so that over HTTP/1.1 a request can get another one's answer. Single instruments and infos are held against what was asked; a page, a choice context or a 404 may have been another's until it was noticed.",
      look: 'The log: "node answers out of step" has node and fault. GET /status: outOfStep of each node.',
      act: "Cordon the node (POST /nodes) if another one is there, and report it to the registry's operator. For an hour its info is asked before each POST over the same connection; after three times the node is used last, each call over a connection of its own.",
    },
  },
  RegistryGatewaySupportedApisChanged: {
    conditions: above0(sum(UPSTREAM, q.over("15m").increase("supportedApisChanges"))),
    summary: "{{ $labels.upstream }}: the registry's info names other APIs than before",
    runbook: {
      means:
        "The registry was upgraded, or rolled back. Clients choose between versions by supportedApis, which is cached: until the entries end, they go on as before.",
      look: 'The log: "supportedApis changed" names what was added and removed.',
      act: 'On an upgrade day, purge the registry\'s info and instruments, so that clients see it at once: POST /purge with {"upstream": name, "endpoint": "info"}, then the same with "instruments". Not expected: ask the registry\'s operator.',
    },
  },
  RegistryGatewayCredentialUnusable: {
    conditions: above0(aggregate("max", [...UPSTREAM, "key"], q.over("5m").highest("credentialUnusable"))),
    summary: "{{ $labels.upstream }}: what {{ $labels.key }} names cannot be read or fetched, or is no good",
    runbook: {
      means:
        "The last good credential stays in use while it lasts; without one, calls to this registry fail with 502. A reload that brought it leaves this registry as it was. At its next start a replica will not come up.",
      look: 'The log: "credential cannot be used" says why.',
      act: "Look at the file's path, rights and contents (one line; a certificate with its own key), or at the token endpoint. registry-gateway check finds the same. It is read again within seconds.",
    },
  },
};
