import type { ClientReport } from "../../src/clients/client.ts";
import { api } from "../api.ts";
import type { PageProps } from "../app.tsx";
import { NOTHING, sayNumber, sayRelative, saySince } from "../format.ts";
import { type Column, Problem, Table } from "../parts.tsx";
import { usePolling } from "../polling.ts";

/** Who may call, and what each used at this replica since it began. */
export function ClientsPage({ status, now }: PageProps) {
  const { answer, problem } = usePolling(api.clients);
  return (
    <section class="card">
      <h1>Clients</h1>
      <Problem text={problem} />
      {answer?.isConfigured === false && (
        <p class="dim">Everybody may call, without limits: the configuration has no clients.</p>
      )}
      {answer?.isConfigured === true && (
        <>
          <p class="dim">
            Counted by this replica, {status.replica}, {saySince(status.since, now)}.
          </p>
          <Table
            caption="Clients"
            columns={columns(now)}
            rows={answer.clients}
            keyOf={({ kind, name }) => `${kind} ${name}`}
            empty="No client has called yet."
          />
        </>
      )}
    </section>
  );
}

function columns(now: number): readonly Column<ClientReport>[] {
  return [
    {
      head: "Client",
      cell: ({ name, kind }) => <span class="strong">{kind === "anonymous" ? "everybody else" : name}</span>,
    },
    {
      head: "Credential",
      cell: ({ kind }) => (kind === "anonymous" ? "none" : kind === "key" ? "API key" : "token"),
    },
    { head: "Tier", cell: ({ tier }) => tier },
    { head: "Requests", isNumber: true, cell: ({ requests }) => sayNumber(requests) },
    { head: "Refused", isNumber: true, cell: ({ refused }) => sayNumber(refused) },
    { head: "Running", isNumber: true, cell: ({ running }) => sayNumber(running) },
    { head: "Last seen", cell: ({ lastSeen }) => (lastSeen === undefined ? "never" : sayRelative(lastSeen, now)) },
    { head: "Expires", cell: ({ expires }) => (expires === undefined ? NOTHING : sayRelative(expires, now)) },
  ];
}
