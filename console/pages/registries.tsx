import { LATENCY_BOUNDS } from "../../src/observe/totals.ts";
import type { Status } from "../../src/operations/types.ts";
import type { PageProps } from "../app.tsx";
import { latency, rate, sayFigure, saySince } from "../format.ts";
import { type Column, lineOf, sayUpstream, State, Table } from "../parts.tsx";
import { quantileOf, rateOf, type Samples } from "../samples.ts";

type Row = Status["upstreams"][number];

export function RegistriesPage(props: PageProps) {
  return (
    <section class="card">
      <h1>Registries</h1>
      <RegistriesTable {...props} />
    </section>
  );
}

/** One row for each registry; those that are not well come first. */
export function RegistriesTable({ status, samples, now }: Omit<PageProps, "argument">) {
  const order = { page: 0, warning: 1, well: 2 };
  const levelOf = ({ name }: Row) => lineOf(status.health, name)?.level ?? "well";
  const rows = status.upstreams.toSorted((one, other) => order[levelOf(one)] - order[levelOf(other)]);
  return (
    <Table
      caption="Registries"
      columns={columns(samples, now)}
      rows={rows}
      keyOf={({ name }) => name}
      empty="No registry is configured."
    />
  );
}

function columns(samples: Samples, now: number): readonly Column<Row>[] {
  return [
    {
      head: "Registry",
      cell: ({ name }) => (
        <a class="strong" href={`#/registries/${encodeURIComponent(name)}`}>
          {name}
        </a>
      ),
    },
    { head: "State", cell: (row) => <RegistryState row={row} now={now} /> },
    { head: "Nodes", cell: ({ nodes }) => `${nodes.filter(({ state }) => state === "up").length} of ${nodes.length}` },
    { head: "Your limit", cell: ({ limit }) => sayLimit(limit) },
    {
      head: "Calls",
      isNumber: true,
      cell: ({ name }) => sayFigure(rate(rateOf(samples, (status) => totalsOf(status, name)?.attempts ?? 0))),
    },
    {
      head: "p99",
      isNumber: true,
      cell: ({ name }) =>
        sayFigure(latency(quantileOf(samples, 0.99, (status) => totalsOf(status, name)?.latency, LATENCY_BOUNDS))),
    },
  ];
}

/** A registry's totals in one sample. */
export function totalsOf({ upstreams }: Status, name: string): Row["totals"] | undefined {
  return upstreams.find((each) => each.name === name)?.totals;
}

/** `120/1m, 3 wait` */
export function sayLimit(limit: Row["limit"]): string {
  if (limit === undefined) return "none";
  const windows = limit.burst === undefined ? limit.requests : `${limit.requests}, ${limit.burst}`;
  return limit.waiting === 0 ? windows : `${windows}; ${limit.waiting} wait`;
}

function RegistryState({ row, now }: { readonly row: Row; readonly now: number }) {
  const { tone, word } = sayUpstream(row, now);
  return (
    <>
      <State tone={tone}>
        {word}
        {tone === "bad" && ` ${saySince(row.since, now)}`}
      </State>
      {row.cause !== undefined && row.mode === "normal" && <small class="dim cause">{row.cause}</small>}
      {row.credential !== undefined && <small class="dim cause">{row.credential}</small>}
    </>
  );
}
