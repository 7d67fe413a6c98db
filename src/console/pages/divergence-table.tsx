import type { StatusAnswer } from "../../operations/answers.ts";
import { DataTable } from "../components/data-table.tsx";
import { Badge, Section, When } from "../components/parts.tsx";
import { NOTHING, sayNumber } from "../format.ts";

type Upstream = StatusAnswer["upstreams"][number];
type Divergence = Upstream["divergences"][number];

/** Each place at which two nodes differ is a row of its own. */
type Row = Divergence & { readonly difference: Divergence["differences"][number] };

/** Where nodes of one registry answered differently, with what both said; nothing where none did. */
export function DivergenceTable({ upstream }: { readonly upstream: Upstream }) {
  const rows = upstream.divergences.flatMap((divergence): Row[] =>
    divergence.differences.map((difference) => ({ ...divergence, difference })),
  );
  if (rows.length === 0) return null;
  return (
    <Section title="Nodes that differ">
      <DataTable
        caption={`What nodes of ${upstream.name} answered differently`}
        rows={rows}
        keyOf={({ operation, nodes, difference }) => JSON.stringify([operation, nodes, difference])}
        textOf={({ difference }) => `${difference.instrument ?? ""} ${difference.path}`}
        empty="Nothing."
        columns={[
          { title: "Found", cell: ({ at }) => <When at={at} /> },
          {
            title: "Times",
            metric: "registry_gateway_node_divergences_total",
            isNumber: true,
            cell: ({ times }) => sayNumber(times),
          },
          { title: "Endpoint", cell: ({ operation }) => operation },
          {
            title: "Instrument",
            cell: ({ difference }) => <code class="wrap">{difference.instrument ?? NOTHING}</code>,
          },
          { title: "Where", cell: ({ difference }) => <code class="wrap">{difference.path}</code> },
          { title: "One node", cell: (row) => <Said row={row} at={0} /> },
          { title: "The other", cell: (row) => <Said row={row} at={1} /> },
        ]}
      />
    </Section>
  );
}

/** What one of the two nodes said there. */
function Said({ row: { nodes, odd, difference }, at }: { readonly row: Row; readonly at: 0 | 1 }) {
  return (
    <>
      <b>{`node ${nodes[at]}`}</b> {nodes[at] === odd && <Badge tone="bad">odd one out</Badge>}{" "}
      <code class="wrap">{difference.values[at] ?? "not there"}</code>
    </>
  );
}
