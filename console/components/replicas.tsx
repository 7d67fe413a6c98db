import { useState } from "preact/hooks";
import type { ReplicasAnswer } from "../../src/operations/answers.ts";
import { sayCount, sayDuration } from "../../src/words/quantity.ts";
import { NOTHING, sayBytes, sayRate, sayShare } from "../format.ts";
import { usePoll } from "../polling.ts";
import { store, useStore } from "../store.ts";
import { type Column, DataTable } from "./data-table.tsx";
import { Badge } from "./parts.tsx";

type Row = ReplicasAnswer["replicas"][number];

const EVERY = 5_000;

/** What a replica differs in, in words. */
const DIFFERENCES: Readonly<Record<Row["differs"][number], string>> = {
  build: "build",
  configuration: "configuration",
  clientKeys: "keys of clients",
  actions: "operator actions",
  nodes: "nodes that fail",
};

const COLUMNS: readonly Column<Row>[] = [
  { title: "Replica", cell: ({ name, isSelf }) => (isSelf ? `${name} (answers)` : name), sort: ({ name }) => name },
  { title: "Build", cell: ({ version, revision }) => (revision === "-" ? version : `${version} ${revision}`) },
  {
    title: "Up for",
    cell: ({ uptimeSeconds }) => (uptimeSeconds === null ? NOTHING : sayDuration(uptimeSeconds * 1_000)),
    sort: ({ uptimeSeconds }) => uptimeSeconds ?? 0,
  },
  {
    title: "Requests / s",
    isNumber: true,
    metric: "registry_gateway_requests_total",
    cell: ({ load }) => sayRate(load?.requestsPerSecond),
    sort: ({ load }) => load?.requestsPerSecond ?? 0,
  },
  {
    title: "Busy",
    isNumber: true,
    metric: "registry_gateway_event_loop_active_seconds_total",
    cell: ({ load }) => sayShare(load?.busy),
    sort: ({ load }) => load?.busy ?? 0,
  },
  {
    title: "Memory",
    isNumber: true,
    metric: "process_resident_memory_bytes",
    cell: ({ load }) => (load === null || load.residentBytes === 0 ? NOTHING : sayBytes(load.residentBytes)),
    sort: ({ load }) => load?.residentBytes ?? 0,
  },
  {
    title: "Differs in",
    cell: ({ differs }) =>
      differs.length === 0 ? (
        <Badge tone="good">nothing</Badge>
      ) : (
        <Badge tone="warn">{differs.map((each) => DIFFERENCES[each] ?? each).join(", ")}</Badge>
      ),
    sort: ({ differs }) => -differs.length,
  },
];

/** The replica that answers, and behind it all of them. */
export function Replicas() {
  const replica = useStore((state) => state.status?.replica);
  const [isOpen, setOpen] = useState(false);
  const { value } = usePoll({ load: (signal) => store.ask<ReplicasAnswer>("replicas", { signal }), every: EVERY });
  if (replica === undefined) return null;
  const count = (value?.replicas.length ?? 1) + (value?.unknown ?? 0);
  if (value === undefined || count === 1) {
    return (
      <span class="version" title={`The replica that answers, built from ${replica.revision}`}>
        {replica.name}
      </span>
    );
  }
  const { replicas, unknown, differences } = value;
  return (
    <details class="replicas" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary class="version">
        {replica.name}, 1 of {count} replicas
        {differences.length > 0 && (
          <>
            {" "}
            <Badge tone="warn">differ</Badge>
          </>
        )}
      </summary>
      {isOpen && (
        <div class="card">
          <DataTable caption="Replicas" columns={COLUMNS} rows={replicas} keyOf={({ name }) => name} empty="" />
          {unknown > 0 && (
            <p class="hint">
              {sayCount(unknown, "more replica")} cannot be read: of an earlier release, or with other seal keys.
            </p>
          )}
          {differences.map((text) => (
            <p key={text}>{text}.</p>
          ))}
        </div>
      )}
    </details>
  );
}
