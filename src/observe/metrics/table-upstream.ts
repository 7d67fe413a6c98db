import { ATTEMPT_OUTCOMES, CALL_OUTCOMES, CREDENTIAL_KEYS, HEDGE_RESULTS, REFUSALS } from "../../upstream/observer.ts";
import { AGREEMENT_OUTCOMES } from "../../upstream/agreement.ts";
import { FAILURE_REASONS } from "../../upstream/failure.ts";
import { COUNTED_STATES, UPSTREAM_MODES, UPSTREAM_STATES } from "../../upstream/status.ts";
import { OPERATIONS } from "../../spec/operations.ts";
import { counter, gauge, histogram } from "./definition.ts";
import { ALIAS, CALL_KIND, CHECK_OUTCOME, NODE_PLACE, SOURCE } from "./labels.ts";
import { REGISTRY_STATES, RUN_OUTCOMES } from "../../discovery/report.ts";

/** How the registries and the way to them are doing. */
export const UPSTREAM = {
  upstreamState: gauge("upstream_state", {
    resetBy: "reading",
    help: "1 for the state the upstream is in, 0 for the others.",
    labels: { upstream: ALIAS, state: UPSTREAM_STATES },
  }),
  upstreamNodes: gauge("upstream_nodes", {
    resetBy: "reading",
    help: "Nodes of the upstream in each state; cordoned: by an operator, and not up.",
    labels: { upstream: ALIAS, state: COUNTED_STATES },
  }),
  upstreamMode: gauge("upstream_mode", {
    resetBy: "reading",
    help: "1 for the mode the upstream is in, 0 for the other; cache-only: by an operator, nothing is asked of it.",
    labels: { upstream: ALIAS, mode: UPSTREAM_MODES },
  }),
  nodeCordoned: gauge("node_cordoned", {
    resetBy: "reading",
    help: "1 while an operator has the node cordoned: it gets no new calls. The node is its place in urls, from 0.",
    labels: { upstream: ALIAS, node: NODE_PLACE },
  }),
  upstreamCalls: counter("upstream_calls", {
    help: "Calls of the registry's API, whatever their attempts; failed: a 5xx or 429 of the registry's, or no usable answer.",
    labels: { upstream: ALIAS, kind: CALL_KIND, outcome: CALL_OUTCOMES },
  }),
  upstreamAttempts: counter("upstream_attempts", {
    help: "Calls sent to nodes, retries and hedges included, checks apart; error: an error of the registry's own.",
    labels: { upstream: ALIAS, outcome: ATTEMPT_OUTCOMES },
  }),
  upstreamFailures: counter("upstream_attempt_failures", {
    help: "Calls to nodes without a usable answer, by reason.",
    labels: { upstream: ALIAS, reason: FAILURE_REASONS },
  }),
  upstreamDuration: histogram("upstream_attempt_duration", {
    help: "From sending a call to a node to the end of its answer.",
    labels: { upstream: ALIAS, kind: CALL_KIND },
  }),
  upstreamInFlight: gauge("upstream_calls_in_flight", {
    resetBy: "reading",
    help: "Calls to the upstream that run.",
    labels: { upstream: ALIAS },
  }),
  upstreamQueued: gauge("upstream_calls_queued", {
    resetBy: "reading",
    help: "Calls to the upstream that wait for their turn.",
    labels: { upstream: ALIAS },
  }),
  upstreamMaxInFlight: gauge("upstream_calls_max_in_flight", {
    resetBy: "reading",
    help: "Calls to the upstream that may run at once.",
    labels: { upstream: ALIAS },
  }),
  upstreamRefused: counter("upstream_refused_calls", {
    help: "Calls refused before any attempt, by reason.",
    labels: { upstream: ALIAS, reason: REFUSALS },
  }),
  breakerState: gauge("upstream_breaker_state", {
    resetBy: "reading",
    help: "The circuit breaker: 0 closed, 1 half-open, 2 open.",
    labels: { upstream: ALIAS },
  }),
  upstreamEjections: counter("upstream_node_ejections", {
    help: "Nodes taken out because they failed or were too slow.",
    labels: { upstream: ALIAS },
  }),
  upstreamChecks: counter("upstream_node_checks", {
    help: "Checks of nodes' info.",
    labels: { upstream: ALIAS, outcome: CHECK_OUTCOME },
  }),
  upstreamRetries: counter("upstream_retries", {
    help: "Further attempts after one that failed.",
    labels: { upstream: ALIAS },
  }),
  retriesExhausted: counter("upstream_retry_budget_exhausted", {
    help: "Further attempts not made because the retry budget was spent.",
    labels: { upstream: ALIAS },
  }),
  agreements: counter("upstream_agreements", {
    help: "Answers that several nodes were asked for, by what came of it; same and different: what one more node said afterwards.",
    labels: { upstream: ALIAS, kind: CALL_KIND, outcome: AGREEMENT_OUTCOMES },
  }),
  agreementQuestions: counter("upstream_agreement_questions", {
    help: "Calls to nodes because several have to say the same.",
    labels: { upstream: ALIAS },
  }),
  agreementWait: counter("upstream_agreement_wait_seconds", {
    help: "Time from the first node's answer to the agreement of enough, in all.",
    labels: { upstream: ALIAS },
  }),
  upstreamHedges: counter("upstream_hedges", {
    help: "Second calls to another node because the first was slow.",
    labels: { upstream: ALIAS, result: HEDGE_RESULTS },
  }),
  rateLimit: gauge("upstream_rate_limit", {
    resetBy: "reading",
    help: "Calls that rateLimit allows in one window.",
    labels: { upstream: ALIAS },
  }),
  rateLimitLeft: gauge("upstream_rate_limit_left", {
    resetBy: "reading",
    help: "Calls left in the window of rateLimit, not of its burst, as last seen within it.",
    labels: { upstream: ALIAS },
  }),
  agreementMissing: gauge("upstream_agreement_missing", {
    resetBy: "reading",
    help: "Nodes that have yet to name the same admin before any is used (agreement.admin); 0 where one node is enough.",
    labels: { upstream: ALIAS },
  }),
  adminContested: gauge("upstream_admin_contested", {
    resetBy: "reading",
    help: "1 while another upstream claims the same admin and neither has it configured: neither is used.",
    labels: { upstream: ALIAS },
  }),
  nodeOutOfStep: counter("node_out_of_step", {
    help: "Times that answers of a node were to other requests than they came for, or to none. The node is its place in urls, from 0.",
    labels: { upstream: ALIAS, node: NODE_PLACE },
  }),
  supportedApisChanges: counter("upstream_supported_apis_changes", {
    help: "Times that the registry's info named other APIs than before, as after an upgrade.",
    labels: { upstream: ALIAS },
  }),
  credentialUnusable: gauge("upstream_credential_unusable", {
    help: "1 while what the key names is no good: the last good one is used while it lasts.",
    labels: { upstream: ALIAS, key: CREDENTIAL_KEYS },
  }),
  schemaViolations: counter("schema_violations", {
    help: "Answers of upstreams that break the published schema.",
    labels: { upstream: ALIAS, operation: OPERATIONS },
  }),
} as const;

/** Registries that are found. */
export const DISCOVERY = {
  discoveryRegistries: gauge("discovery_registries", {
    help: "Registries that are listed or used: found (listed, not proved), pinned (used), waiting (for an operator), gone (used, and listed no more).",
    labels: { state: REGISTRY_STATES },
  }),
  discoveryRuns: counter("discovery_runs", {
    help: "Readings of all sources: success, partial (a source failed, or a registry did not prove its admin), or failure.",
    labels: { outcome: RUN_OUTCOMES },
  }),
  discoverySourceSuccess: gauge("discovery_source_last_success_timestamp_seconds", {
    help: "When a source was last read without a fault, as Unix time; when it was configured, before the first time.",
    labels: { source: SOURCE },
  }),
  discoveryEvery: gauge("discovery_every_seconds", {
    help: "How often the sources are read, as the configuration says.",
  }),
  discoveryPinFileUnusable: gauge("discovery_pin_file_unusable", {
    help: "1 while the file of the pins cannot be read or written: what is pinned does not outlive the process.",
  }),
} as const;
