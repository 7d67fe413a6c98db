import type { AuditAnswer, HistoryAnswer, StatusAnswer } from "../../src/operations/answers.ts";
import { DataTable } from "../components/data-table.tsx";
import { MetricLink } from "../components/metric-link.tsx";
import { Badge, Blank, Section, Tile, When } from "../components/parts.tsx";
import { NOTHING, sayBytes, sayDate, sayMilliseconds, sayNumber, sayRate, sayShare } from "../format.ts";
import { SEVERITY_TONES } from "../health.ts";
import { lastMinuteOf, lineOf, totalOf } from "../history.ts";
import type { Intent } from "../intent.ts";
import { AuditTable } from "./audit.tsx";
import { OverviewCharts } from "./overview-charts.tsx";
import { usePoll } from "../polling.ts";
import { formatRoute } from "../route.ts";
import { store, useStore } from "../store.ts";
import { sayDuration } from "../../src/words/quantity.ts";

/** Is it well, what is going on, what is in force. */
export function OverviewPage() {
  const status = useStore((state) => state.status);
  const history = useStore((state) => state.history);
  const problem = useStore((state) => state.historyProblem);
  if (status === undefined) return <Blank>Asking the gateway…</Blank>;
  return (
    <>
      <HealthCard status={status} />
      {history !== undefined && <Tiles status={status} history={history} />}
      <InForce status={status} />
      {history === undefined ? (
        <Blank problem={problem}>Asking for the last hour…</Blank>
      ) : (
        <OverviewCharts history={history} />
      )}
      <LastActions />
    </>
  );
}

const MOST_ACTIONS = 8;

/** As many findings as help; what follows is on the page of the registries. */
const MOST_FINDINGS = 8;

const WORDS = { good: "well", warn: "look", bad: "bad", off: "off" };

function HealthCard({ status }: { readonly status: StatusAnswer }) {
  const { severity, sentence, findings, more } = status.health;
  const tone = severity === null ? "good" : SEVERITY_TONES[severity];
  const rest = Math.max(0, findings.length - MOST_FINDINGS) + more;
  const only = findings.length === 1 ? findings[0]!.upstream : null;
  return (
    <div class={`health ${tone}`}>
      <p class="sentence">
        <span role="status">
          <Badge tone={tone}>{WORDS[tone]}</Badge> {sentence}
        </span>{" "}
        <MetricLink name="registry_gateway_upstream_state" /> {only !== null && <ShowLink name={only} />}
      </p>
      {findings.length > 1 && (
        <ul>
          {findings.slice(0, MOST_FINDINGS).map(({ severity: how, text, upstream, since }) => (
            <li key={text} title={`seen since ${sayDate(since)}`}>
              <Badge tone={SEVERITY_TONES[how]}>{WORDS[SEVERITY_TONES[how]]}</Badge> {text}{" "}
              {upstream !== null && <ShowLink name={upstream} />}
            </li>
          ))}
          {rest > 0 && (
            <li>
              And {rest} more: <a href={formatRoute({ page: "registries" })}>all registries</a>
            </li>
          )}
        </ul>
      )}
    </div>
  );
}

function ShowLink({ name }: { readonly name: string }) {
  return <a href={formatRoute({ page: "registries", name })}>Show {name}</a>;
}

function Tiles({ status, history }: { readonly status: StatusAnswer; readonly history: HistoryAnswer }) {
  const minute = lastMinuteOf(history);
  const spared = totalOf(lineOf(history, "callsSpared"));
  const { memory } = status.cache;
  const errors = minute.errors ?? 0;
  return (
    <dl class="tiles eight">
      <Tile
        label="Requests / s"
        value={sayRate(minute.requests)}
        metric="registry_gateway_requests_total"
        hint="last minute"
      />
      <Tile
        label="Hit ratio"
        value={sayShare(minute.hitRatio)}
        metric="registry_gateway_cache_answers_total"
        hint="of cached endpoints"
      />
      <Tile
        label="Errors / s"
        value={sayRate(minute.errors)}
        metric="registry_gateway_errors_total"
        hint="the gateway's own"
        tone={errors > 0 ? "warn" : "good"}
      />
      <Tile
        label="Latency p50"
        value={sayMilliseconds(minute.p50)}
        metric="registry_gateway_request_duration_seconds"
        hint={`p99 ${sayMilliseconds(minute.p99)}`}
      />
      <Tile
        label="Calls / s"
        value={sayRate(minute.calls)}
        metric="registry_gateway_upstream_attempts_total"
        hint={`to upstreams, ${sayRate(minute.failedCalls)} failed`}
        tone={(minute.failedCalls ?? 0) > 0 ? "warn" : "good"}
      />
      <Tile
        label="Spared / s"
        value={sayRate(minute.spared)}
        metric="registry_gateway_cache_answers_total"
        hint={`${sayNumber(spared)} in an hour`}
      />
      <Tile
        label="Memory cache"
        value={sayBytes(memory.bytes)}
        metric="registry_gateway_cache_bytes"
        hint={`of ${sayBytes(memory.maxBytes)}`}
      />
      <Tile label="Running for" value={sayDuration(status.uptimeSeconds * 1_000)} metric="process_start_time_seconds" />
    </dl>
  );
}

type InForceAction = StatusAnswer["inForce"][number];

/** Cordons, weights, cache-only modes, each with what undoes it; and breakers that are open, which close by themselves. */
function InForce({ status }: { readonly status: StatusAnswer }) {
  const isReadonly = useStore((state) => state.session?.readonly === true);
  const open = status.upstreams.filter(({ breaker }) => breaker !== "closed");
  return (
    <Section title="In force">
      <DataTable
        caption="What is in force"
        keyOf={({ upstream, node }) => `${upstream} ${node}`}
        rows={status.inForce}
        empty="No cordon, weight or cache-only mode of an operator is in force."
        columns={[
          {
            title: "Registry",
            cell: ({ upstream }) => <a href={formatRoute({ page: "registries", name: upstream })}>{upstream}</a>,
          },
          {
            title: "What",
            metric: "registry_gateway_node_cordoned",
            cell: (action) => <Badge tone="warn">{sayAction(action)}</Badge>,
          },
          { title: "Reason", cell: ({ reason }) => <span class="wrap">{reason ?? NOTHING}</span> },
          { title: "Since", cell: ({ since }) => <When at={since} /> },
          { title: "Ends", cell: ({ until }) => (until === null ? "when it is undone" : <When at={until} />) },
          {
            title: "Undo",
            cell: (action) => (isReadonly ? NOTHING : <UndoButton action={action} />),
          },
        ]}
      />
      {open.length > 0 && (
        <ul class="list">
          {open.map(({ name, breaker }) => (
            <li key={name}>
              <Badge tone="bad">breaker {breaker}</Badge> <a href={formatRoute({ page: "registries", name })}>{name}</a>
              : calls are refused at once; it closes by itself when the registry answers.
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

function sayAction({ node, state, weight, mode }: InForceAction): string {
  if (node === null) return mode ?? "changed";
  const parts = [state === "cordoned" ? "cordoned" : undefined, weight === null ? undefined : `weight ${weight}`];
  return `node ${node} ${parts.filter(Boolean).join(", ")}`;
}

function UndoButton({ action }: { readonly action: InForceAction }) {
  const { upstream, node, url, state } = action;
  const undoes = state === "cordoned" ? "cordon" : "weight";
  const intent: Intent =
    node === null || url === null ? { kind: "normal", upstream } : { kind: "activate", upstream, node, url, undoes };
  return (
    <button
      type="button"
      class="small"
      onClick={() => store.set({ intent })}
      aria-label={`Undo ${sayAction(action)} of ${upstream}`}
    >
      Undo
    </button>
  );
}

/** What operators did last; the page of the audit has what was before. */
function LastActions() {
  const { value, problem } = usePoll<AuditAnswer>({
    load: (signal) => store.ask("audit", { query: { limit: MOST_ACTIONS }, signal }),
    every: 10_000,
  });
  return (
    <Section title="What operators did">
      {value === undefined ? <Blank problem={problem}>Asking…</Blank> : <AuditTable actions={value.actions} />}
      {typeof value?.next === "string" && (
        <p>
          <a href={formatRoute({ page: "audit" })}>What was done before</a>
        </p>
      )}
    </Section>
  );
}
