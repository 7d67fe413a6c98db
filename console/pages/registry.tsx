import type { HistoryAnswer, StatusAnswer } from "../../src/operations/answers.ts";
import { Chart } from "../components/chart.tsx";
import { Badge, Blank, Fact, Section, When } from "../components/parts.tsx";
import { sayMilliseconds, sayNumber, sayRate, sayShare } from "../format.ts";
import { sayCount } from "../../src/words/quantity.ts";
import { upstreamTone } from "../health.ts";
import { lineOf, perSecond } from "../history.ts";
import { NodeTable } from "./node-table.tsx";
import { formatRoute } from "../route.ts";
import { store, useStore } from "../store.ts";

type Upstream = StatusAnswer["upstreams"][number];

/** One registry: how it is, its nodes, its calls, and what can be done to it. */
export function RegistryPage({ name }: { readonly name: string }) {
  const status = useStore((state) => state.status);
  const history = useStore((state) => state.history);
  const isReadonly = useStore((state) => state.session?.readonly === true);
  if (status === undefined) return <Blank>Asking the gateway…</Blank>;
  const upstream = status.upstreams.find((each) => each.name === name);
  if (upstream === undefined) {
    return (
      <Blank>
        There is no registry of this name. <a href={formatRoute({ page: "registries" })}>All registries</a>
      </Blank>
    );
  }
  return (
    <>
      <Facts upstream={upstream} status={status} />
      {!isReadonly && <Actions upstream={upstream} />}
      <NodeTable upstream={upstream} isReadonly={isReadonly} />
      <Calls upstream={upstream} history={history} />
    </>
  );
}

function Facts({ upstream, status }: { readonly upstream: Upstream; readonly status: StatusAnswer }) {
  const {
    name,
    admin,
    state,
    mode,
    lastError,
    breaker,
    passThroughBreaker,
    budgetLeft,
    isContested,
    agreement,
    lastDifference,
  } = upstream;
  const action = status.inForce.find(({ upstream: on, node }) => on === name && node === null);
  return (
    <Section
      title="State"
      aside={<a href={formatRoute({ page: "requests", query: { upstream: name } })}>Its requests</a>}
    >
      <dl class="facts">
        <Fact label="State" metric="registry_gateway_upstream_state">
          <Badge tone={upstreamTone(state)}>{state}</Badge>
          {isContested && " Another upstream claims the same admin: neither is used until one has it configured."}
        </Fact>
        {lastError !== null && <Fact label="Why">{lastError}</Fact>}
        <Fact label="Mode" metric="registry_gateway_upstream_mode">
          {mode === "cache-only" ? <Badge tone="warn">cache-only</Badge> : mode}
          {action !== undefined && (
            <>
              {" "}
              since <When at={action.since} />,{" "}
              {action.until === null ? (
                "until it is undone"
              ) : (
                <>
                  ends <When at={action.until} />
                </>
              )}
              {action.reason !== null && `: ${action.reason}`}
            </>
          )}
        </Fact>
        <Fact label="Admin">
          <code class="long">{admin ?? "not known yet"}</code>
        </Fact>
        {agreement !== null && (
          <Fact label="Agreement" metric="registry_gateway_upstream_agreement_missing">
            {sayCount(agreement.agreeing, "node")} of {agreement.needed} that have to name the same admin{" "}
            <Badge tone={agreement.isReached ? "good" : "warn"}>
              {agreement.isReached ? "reached" : "not reached"}
            </Badge>
          </Fact>
        )}
        {lastDifference !== null && (
          <Fact label="Nodes that differed last" metric="registry_gateway_upstream_agreements_total">
            {lastDifference.nodes.map((group) => group.join(", ")).join(" against ")} in {lastDifference.operation},{" "}
            <When at={lastDifference.at} />: {lastDifference.parts.join(", ")}
          </Fact>
        )}
        <Fact label="Circuit breaker" metric="registry_gateway_upstream_breaker_state">
          {breaker}
          {passThroughBreaker !== "closed" && `, for what is passed through ${passThroughBreaker}`}
        </Fact>
        <Fact label="Calls that run" metric="registry_gateway_upstream_calls_in_flight">
          {sayNumber(upstream.running)}
        </Fact>
        <Fact label="Calls that wait" metric="registry_gateway_upstream_calls_queued">
          {sayNumber(upstream.queued)}
        </Fact>
        <Fact label="Retries left" metric="registry_gateway_upstream_retry_budget_exhausted_total">
          {sayNumber(upstream.retriesLeft)}
        </Fact>
        <Fact label="Rate limit" metric="registry_gateway_upstream_rate_limit_left">
          {budgetLeft === null ? "none" : `${sayNumber(budgetLeft)} calls left in its window`}
        </Fact>
        <Fact label="Certificates" metric="registry_gateway_certificate_expiry_seconds">
          {upstream.certificates.length === 0 && "none"}
          {upstream.certificates.map(({ role, expiresAt }) => (
            <span key={role} class="pair">
              {role.replaceAll("_", " ")}: ends <When at={expiresAt} />
            </span>
          ))}
        </Fact>
      </dl>
    </Section>
  );
}

function Actions({ upstream: { name, mode } }: { readonly upstream: Upstream }) {
  return (
    <div class="actions" role="group" aria-label={`Actions on ${name}`}>
      {mode === "cache-only" ? (
        <button type="button" class="primary" onClick={() => store.set({ intent: { kind: "normal", upstream: name } })}>
          Back to normal…
        </button>
      ) : (
        <button type="button" onClick={() => store.set({ intent: { kind: "cache-only", upstream: name } })}>
          Cache only…
        </button>
      )}
      <button type="button" onClick={() => store.set({ intent: { kind: "purge", upstream: name, soft: true } })}>
        Soft purge…
      </button>
      <button
        type="button"
        class="danger"
        onClick={() => store.set({ intent: { kind: "purge", upstream: name, soft: false } })}
      >
        Purge…
      </button>
    </div>
  );
}

function Calls({ upstream, history }: { readonly upstream: Upstream; readonly history: HistoryAnswer | undefined }) {
  if (history?.lines[`calls:${upstream.name}`] === undefined) {
    return (
      <Blank>Its calls are not drawn: it had none in the last hour, or fifty other registries had some first.</Blank>
    );
  }
  const { times } = history;
  const line = (name: string) => lineOf(history, `${name}:${upstream.name}`);
  const failed = line("failed");
  const share = line("calls").map((calls, i) => (calls === null || calls === 0 ? null : (failed[i] ?? 0) / calls));
  return (
    <div class="charts">
      <Chart
        title="Calls a second"
        metric="registry_gateway_upstream_attempts_total"
        times={times}
        say={sayRate}
        lines={[
          { label: "calls", values: perSecond(line("calls"), history), color: 3 },
          { label: "failed", values: perSecond(failed, history), color: 6 },
        ]}
      />
      <Chart
        title="Share that failed"
        metric="registry_gateway_upstream_attempt_failures_total"
        times={times}
        say={sayShare}
        most={1}
        lines={[{ label: "failed", values: share, color: 6 }]}
      />
      <Chart
        title="Latency of its calls"
        metric="registry_gateway_upstream_attempt_duration_seconds"
        times={times}
        say={sayMilliseconds}
        lines={[
          { label: "p50", values: line("p50Ms"), color: 1 },
          { label: "p99", values: line("p99Ms"), color: 2 },
        ]}
      />
    </div>
  );
}
