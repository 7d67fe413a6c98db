import { useState } from "preact/hooks";
import type { AuditAnswer } from "../../src/operations/answers.ts";
import { sayReached } from "../../src/words/reached.ts";
import { DataTable } from "../components/data-table.tsx";
import { Blank, Section, When } from "../components/parts.tsx";
import { usePoll } from "../polling.ts";
import { store } from "../store.ts";

/** As many as stand on a page of the table. */
const LIMIT = 50;

/** What operators did: the latest, and page by page what was before. */
export function AuditPage() {
  // Where each page begins that was read on the way to this one.
  const [way, setWay] = useState<readonly string[]>([]);
  const before = way.at(-1);
  const { value, problem } = usePoll<AuditAnswer>({
    load: (signal) => store.ask("audit", { query: { limit: LIMIT, before }, signal }),
    every: 10_000,
    key: before ?? "",
  });
  if (value === undefined) return <Blank problem={problem}>Asking for what operators did…</Blank>;
  const { actions, next, isShared, unreadable } = value;
  return (
    <Section title={before === undefined ? "The latest" : "What was done before"}>
      <p>
        {isShared
          ? "Through all replicas, for a month; the log keeps it for longer."
          : "Through this replica since it started: there is no Redis, or it is away. The log has what was before."}
        {unreadable > 0 && ` ${unreadable} of this page cannot be read: they are sealed with a key that is gone.`}
      </p>
      <AuditTable actions={actions} />
      {(way.length > 0 || next !== null) && (
        <nav class="pages" aria-label="Pages of the audit">
          <button type="button" disabled={way.length === 0} onClick={() => setWay(way.slice(0, -1))}>
            Later
          </button>
          <button type="button" disabled={next === null} onClick={() => next !== null && setWay([...way, next])}>
            Earlier
          </button>
        </nav>
      )}
    </Section>
  );
}

export function AuditTable({ actions }: Pick<AuditAnswer, "actions">) {
  return (
    <DataTable
      caption="What operators did"
      rows={actions}
      keyOf={({ id }) => id}
      textOf={({ did, what, by }) => `${did} ${JSON.stringify(what)} ${by}`}
      empty="Nothing that is kept here; the log has what was before."
      columns={[
        { title: "When", cell: ({ at }) => <When at={at} />, sort: ({ at }) => at },
        { title: "Did", cell: ({ did }) => did, sort: ({ did }) => did },
        { title: "What", cell: ({ what }) => <code class="wrap">{JSON.stringify(what)}</code> },
        { title: "By", cell: ({ by }) => by, sort: ({ by }) => by },
        { title: "From", cell: ({ from }) => from },
        { title: "Reached", cell: ({ scope, replicas }) => (replicas === null ? scope : sayReached(replicas)) },
      ]}
    />
  );
}
