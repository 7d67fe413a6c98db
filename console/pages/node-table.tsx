import type { StatusAnswer } from "../../src/operations/answers.ts";
import { type Column, DataTable } from "../components/data-table.tsx";
import { Badge, Section, When } from "../components/parts.tsx";
import { NOTHING, sayMilliseconds, sayNumber, sayShare } from "../format.ts";
import { nodeTone } from "../health.ts";
import { store } from "../store.ts";

type Upstream = StatusAnswer["upstreams"][number];
type Node = Upstream["nodes"][number];

interface Row extends Node {
  readonly index: number;
  /** Of the calls since the start; undefined before the first. */
  readonly share: number | undefined;
}

/** The nodes of one registry, and what can be done to each. */
export function NodeTable({ upstream, isReadonly }: { readonly upstream: Upstream; readonly isReadonly: boolean }) {
  const all = upstream.nodes.reduce((total, { calls }) => total + calls, 0);
  const rows = upstream.nodes.map((node, index): Row => {
    return { ...node, index, share: all === 0 ? undefined : node.calls / all };
  });
  const shared = new Set(upstream.nodes.map(({ admin }) => admin)).size <= 1;
  return (
    <Section title="Nodes">
      <DataTable
        caption={`Nodes of ${upstream.name}`}
        rows={rows}
        keyOf={({ url }) => url}
        empty="It has no nodes."
        columns={[
          {
            title: "Node",
            cell: ({ index, url }) => (
              <>
                <b>{index}</b> <code class="wrap">{url}</code>
              </>
            ),
          },
          {
            title: "State",
            metric: "registry_gateway_upstream_nodes",
            cell: ({ state, cordoned, lastError }) => (
              <>
                <Badge tone={state === "up" && lastError !== null ? "warn" : nodeTone(state)}>
                  {state === "up" && lastError !== null ? "up, failing" : state}
                </Badge>{" "}
                {cordoned && <Badge tone="warn">cordoned</Badge>}
              </>
            ),
          },
          { title: "Why", cell: ({ lastError }) => <span class="wrap">{lastError ?? NOTHING}</span> },
          // Nodes of one registry name one admin: which it is stands above, unless they differ.
          ...(shared
            ? []
            : [{ title: "Admin it proved", cell: ({ admin }: Row) => <code>{admin ?? "none yet"}</code> }]),
          ...measureColumns,
          ...(isReadonly
            ? []
            : [{ title: "Actions", cell: (row: Row) => <NodeActions upstream={upstream.name} node={row} /> }]),
        ]}
      />
    </Section>
  );
}

const measureColumns: readonly Column<Row>[] = [
  {
    title: "Proved its admin",
    cell: ({ provedAt }: Row) => <When at={provedAt} />,
  },
  {
    title: "Latency",
    metric: "registry_gateway_upstream_attempt_duration_seconds",
    isNumber: true,
    cell: ({ latencyMs }: Row) => sayMilliseconds(latencyMs),
  },
  {
    title: "In flight",
    metric: "registry_gateway_upstream_calls_in_flight",
    isNumber: true,
    cell: ({ inFlight }: Row) => sayNumber(inFlight),
  },
  {
    title: "Share of calls",
    metric: "registry_gateway_upstream_attempts_total",
    isNumber: true,
    cell: ({ calls, share }: Row) => <span title={`${calls} calls since the start`}>{sayShare(share)}</span>,
  },
  // As configured or by an operator: measured is the share.
  { title: "Weight", cell: ({ weight }: Row) => <code>{weight}</code> },
  {
    title: "Ejections",
    metric: "registry_gateway_upstream_node_ejections_total",
    isNumber: true,
    cell: ({ ejections }: Row) => sayNumber(ejections),
  },
  {
    title: "Certificate ends",
    metric: "registry_gateway_certificate_expiry_seconds",
    cell: ({ certificateExpiresAt }: Row) => <When at={certificateExpiresAt} />,
  },
];

function NodeActions({ upstream, node }: { readonly upstream: string; readonly node: Row }) {
  const { index, url, cordoned, weight } = node;
  const about = { upstream, node: index, url };
  return (
    <span class="actions">
      {cordoned ? (
        <button
          type="button"
          class="small primary"
          aria-label={`Activate node ${index}`}
          onClick={() => store.set({ intent: { kind: "activate", ...about } })}
        >
          Activate…
        </button>
      ) : (
        <button
          type="button"
          class="small"
          aria-label={`Cordon node ${index}`}
          onClick={() => store.set({ intent: { kind: "cordon", ...about } })}
        >
          Cordon…
        </button>
      )}
      <button
        type="button"
        class="small"
        aria-label={`Weight of node ${index}`}
        onClick={() => store.set({ intent: { kind: "weigh", ...about, weight, isCordoned: cordoned } })}
      >
        Weight…
      </button>
    </span>
  );
}
