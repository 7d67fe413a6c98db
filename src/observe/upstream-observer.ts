import { fieldValue } from "../fields.ts";
import { isCached, type Operation } from "../spec/operations.ts";
import type { UpstreamObserver } from "../upstream/observer.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { CallKind } from "./metrics/labels.ts";
import { hashId, withoutSecrets } from "./redaction.ts";

function kindOf(operation: Operation): CallKind {
  return isCached(operation) ? "metadata" : "other";
}

/** The place of a node in its upstream's list, from 0; -1 where it is no longer there. */
type NodeIndex = (upstream: string, url: string) => number;

/**
 * Counts what happens on the way to upstreams, and logs changes of state in one line each. Nodes are named by their
 * place in the configuration, parties by hashes: a log goes to more people than the configuration does.
 */
export function createUpstreamObserver(metrics: Metrics, log: Logger, nodeIndex: NodeIndex): UpstreamObserver {
  return { ...observeCalls(metrics, log), ...observeStates(metrics, log, nodeIndex) };
}

function observeCalls(metrics: Metrics, log: Logger) {
  return {
    called: (upstream, operation, outcome) => metrics.upstreamCalls.inc({ upstream, kind: kindOf(operation), outcome }),
    attempt(event) {
      const { upstream, operation, outcome, reason, seconds: value, traceId } = event;
      metrics.upstreamAttempts.inc({ upstream, outcome });
      const labels = { upstream, kind: kindOf(operation) };
      if (traceId === undefined) metrics.upstreamDuration.labels(labels).observe(value);
      else metrics.upstreamDuration.observe({ labels, value, exemplarLabels: { trace_id: traceId } });
      if (reason !== undefined) metrics.upstreamFailures.inc({ upstream, reason });
      if (!log.isLevelEnabled("debug")) return;
      const { kind, node, status, fields } = event;
      const requestId = fieldValue(fields, "x-request-id");
      const durationMs = Math.round(value * 1e6) / 1e3;
      log.debug({ requestId, upstream, operation, node, kind, outcome, reason, status, durationMs }, "attempt ended");
    },
    retry: (upstream) => metrics.upstreamRetries.inc({ upstream }),
    retryBudgetExhausted: (upstream) => metrics.retriesExhausted.inc({ upstream }),
    hedge: (upstream, result) => metrics.upstreamHedges.inc({ upstream, result }),
    refused(upstream, reason) {
      metrics.upstreamRefused.inc({ upstream, reason });
      if (log.isLevelEnabled("debug")) log.debug({ upstream, reason }, "call refused");
    },
    rationed(upstream, share, isNew) {
      if (isNew) log.warn({ upstream, share }, "upstream answered 429: calling it less");
    },
  } satisfies Partial<UpstreamObserver>;
}

function observeStates(metrics: Metrics, log: Logger, nodeIndex: NodeIndex) {
  return {
    check: (upstream, _node, outcome) => metrics.upstreamChecks.inc({ upstream, outcome }),
    nodeState(upstream, url, { from, to, why }) {
      if (to === "ejected") metrics.upstreamEjections.inc({ upstream });
      const line = { upstream, node: nodeIndex(upstream, url), from, to, reason: withoutSecrets(why) };
      if (to === "up") log.info(line, "node state changed");
      else log.warn(line, "node state changed");
    },
    upstreamState(upstream, { from, to, why }) {
      const line = { upstream, from, to, reason: withoutSecrets(why) };
      if (to === "up") log.info(line, "upstream state changed");
      else if (to === "wrong-admin" || to === "disabled") log.error(line, "upstream state changed");
      else log.warn(line, "upstream state changed");
    },
    breaker(upstream, calls, { from, to, openFor, isNew }) {
      if (!isNew) return;
      const line = { upstream, calls, from, to, openForSeconds: Math.round(openFor / 1000) };
      if (to === "open") log.warn(line, "breaker state changed");
      else log.info(line, "breaker state changed");
    },
    adminProved(upstream, admin) {
      log.info({ upstream, admin: hashId(admin) }, "admin proved");
    },
    adminMismatch(upstream, url, { expected, named, isNew }) {
      if (!isNew) return;
      log.error(
        { upstream, node: nodeIndex(upstream, url), expected: hashId(expected), named: hashId(named) },
        "node names another admin",
      );
    },
    outOfStep(upstream, url, fault) {
      const node = nodeIndex(upstream, url);
      metrics.nodeOutOfStep.inc({ upstream, node: String(node) });
      log.error({ upstream, node, fault }, "node answers out of step");
    },
    agreement(upstream, { operation, outcome, questions, waited }) {
      metrics.agreements.inc({ upstream, kind: kindOf(operation), outcome });
      metrics.agreementQuestions.inc({ upstream }, questions);
      if (outcome === "agreed") metrics.agreementWait.inc({ upstream }, waited / 1_000);
    },
    differed(upstream, { operation, nodes, parts }, isNew) {
      const line = { upstream, operation, nodes: nodes.map((group) => group.join(" ")), parts };
      if (isNew) log.error(line, "nodes say different things");
      else log.debug(line, "nodes say different things");
    },
    supportedApisChanged(upstream, { added, removed }) {
      metrics.supportedApisChanges.inc({ upstream });
      const line = { upstream, added: added.map(withoutSecrets), removed: removed.map(withoutSecrets) };
      log.warn(line, "supportedApis changed");
    },
    credential(upstream, key, { fault, isNew }) {
      metrics.credentialUnusable.set({ upstream, key }, fault === undefined ? 0 : 1);
      if (!isNew) return;
      if (fault === undefined) log.info({ upstream, key }, "credential can be used again");
      else log.error({ upstream, key, reason: withoutSecrets(fault) }, "credential cannot be used");
    },
  } satisfies Partial<UpstreamObserver>;
}
