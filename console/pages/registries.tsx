import type { HistoryAnswer, StatusAnswer } from "../../src/operations/answers.ts";
import { type Column, DataTable } from "../components/data-table.tsx";
import { Badge, Blank, Section, When } from "../components/parts.tsx";
import { NOTHING, sayMilliseconds, sayNumber, sayRate, shorten } from "../format.ts";
import { severity, upstreamTone } from "../health.ts";
import { callRatesOf, linesOf } from "../history.ts";
import { formatRoute } from "../route.ts";
import { store, useStore } from "../store.ts";

type Upstream = StatusAnswer["upstreams"][number];

/** All registries, the worst first. */
export function RegistriesPage() {
  const status = useStore((state) => state.status);
  const history = useStore((state) => state.history);
  const isReadonly = useStore((state) => state.session?.readonly === true);
  if (status === undefined) return <Blank>Asking the gateway…</Blank>;
  const rows = status.upstreams.toSorted((one, other) => rank(one) - rank(other));
  return (
    <Section title="All registries" aside={!isReadonly && <PurgeButtons />}>
      <DataTable
        caption="Registries"
        rows={rows}
        keyOf={({ name }) => name}
        textOf={({ name, admin, state, mode, lastError }) => `${name} ${admin} ${state} ${mode} ${lastError}`}
        empty="No registry is configured."
        columns={[
          {
            title: "Registry",
            cell: ({ name }) => <a href={formatRoute({ page: "registries", name })}>{name}</a>,
            sort: ({ name }) => name,
          },
          {
            title: "State",
            metric: "registry_gateway_upstream_state",
            cell: ({ state, mode }) => (
              <>
                <Badge tone={upstreamTone(state)}>{state}</Badge>{" "}
                {mode === "cache-only" && <Badge tone="warn">cache-only</Badge>}
              </>
            ),
            sort: rank,
          },
          {
            title: "Why",
            cell: ({ lastError }) => (
              <span class="wrap" title={lastError ?? undefined}>
                {shorten(lastError ?? NOTHING, 60)}
              </span>
            ),
          },
          {
            title: "Nodes up",
            metric: "registry_gateway_upstream_nodes",
            isNumber: true,
            cell: ({ nodes }) => `${nodes.filter(({ state }) => state === "up").length} of ${nodes.length}`,
            sort: ({ nodes }) => nodes.filter(({ state }) => state === "up").length,
          },
          ...rateColumns(history),
          {
            title: "Latency",
            metric: "registry_gateway_upstream_attempt_duration_seconds",
            isNumber: true,
            cell: ({ nodes }) => sayMilliseconds(quickest(nodes)),
            sort: ({ nodes }) => quickest(nodes) ?? -1,
          },
          {
            title: "Breaker",
            metric: "registry_gateway_upstream_breaker_state",
            cell: ({ breaker }) => (breaker === "closed" ? breaker : <Badge tone="bad">{breaker}</Badge>),
            sort: ({ breaker }) => breaker,
          },
          {
            title: "Limit left",
            metric: "registry_gateway_upstream_rate_limit_left",
            isNumber: true,
            cell: ({ budgetLeft }) => sayNumber(budgetLeft),
            sort: ({ budgetLeft }) => budgetLeft ?? -1,
          },
          {
            title: "Certificate",
            metric: "registry_gateway_certificate_expiry_seconds",
            cell: ({ certificates }) => <When at={firstEnd(certificates)} />,
            sort: ({ certificates }) => firstEnd(certificates) ?? "9",
          },
          {
            title: "Admin",
            cell: ({ admin }) => <code title={admin ?? undefined}>{shorten(admin ?? NOTHING, 32)}</code>,
          },
        ]}
      />
    </Section>
  );
}

function rateColumns(history: HistoryAnswer | undefined): Column<Upstream>[] {
  const rates = new Map(
    (history === undefined ? [] : linesOf(history, "calls")).map(
      ([upstream]) => [upstream, callRatesOf(history, upstream)] as const,
    ),
  );
  const calls = ({ name }: Upstream) => rates.get(name)?.calls;
  const failed = ({ name }: Upstream) => rates.get(name)?.failed;
  return [
    {
      title: "Calls / s",
      metric: "registry_gateway_upstream_attempts_total",
      isNumber: true,
      cell: (row: Upstream) => sayRate(calls(row)),
      sort: (row: Upstream) => calls(row) ?? -1,
    },
    {
      title: "Failed / s",
      metric: "registry_gateway_upstream_attempt_failures_total",
      isNumber: true,
      cell: (row: Upstream) => sayRate(failed(row)),
      sort: (row: Upstream) => failed(row) ?? -1,
    },
  ];
}

/** What an operator looks at first comes first. */
function rank({ state, mode, breaker, lastError }: Upstream): number {
  const attention = mode === "cache-only" || breaker !== "closed" || lastError !== null ? 0.5 : 1;
  return severity(upstreamTone(state)) + (severity(upstreamTone(state)) > 0 ? attention : 0);
}

function quickest(nodes: Upstream["nodes"]): number | undefined {
  const measured = nodes.flatMap(({ latencyMs }) => (latencyMs === null ? [] : [latencyMs]));
  return measured.length === 0 ? undefined : Math.min(...measured);
}

function firstEnd(certificates: Upstream["certificates"]): string | null {
  return certificates.map(({ expiresAt }) => expiresAt).toSorted()[0] ?? null;
}

function PurgeButtons() {
  return (
    <>
      <button
        type="button"
        class="small"
        onClick={() => store.set({ intent: { kind: "purge", upstream: undefined, soft: true } })}
      >
        Soft purge all…
      </button>
      <button
        type="button"
        class="small danger"
        onClick={() => store.set({ intent: { kind: "purge", upstream: undefined, soft: false } })}
      >
        Purge all…
      </button>
    </>
  );
}
