import { useState } from "preact/hooks";
import type { ConfigAnswer } from "../../operations/answers.ts";
import { messageOf } from "../api.ts";
import { DataTable } from "../components/data-table.tsx";
import { Badge, Blank, Section, When } from "../components/parts.tsx";
import { NOTHING, shorten } from "../format.ts";
import { usePoll } from "../polling.ts";
import { store, useStore } from "../store.ts";

/** A registry that was found rather than written, as `GET /discovery` tells it. */
interface Found {
  readonly admin: string;
  readonly name: string | null;
  readonly urls: readonly string[];
  readonly state: "found" | "pinned" | "waiting";
  /** What it would be after approval. */
  readonly proposed?: { readonly urls: readonly string[] } | null;
  readonly source: string | null;
  readonly since: string | null;
}

interface DiscoveryAnswer {
  readonly registries: readonly Found[];
}

/** Registries that were found, are pinned, or wait for approval, with what would change. */
export function DiscoveryPage() {
  const isReadonly = useStore((state) => state.session?.readonly === true);
  const { value, problem, refresh } = usePoll<DiscoveryAnswer | "off">({ load: readDiscovery, every: 10_000 });
  if (value === undefined) return <Blank problem={problem}>Asking the gateway…</Blank>;
  if (value === "off") {
    return (
      <Blank>Not configured: every registry is written into the configuration. The key discovery changes that.</Blank>
    );
  }
  const rows = value.registries.toSorted((one, other) => Number(isWaiting(other)) - Number(isWaiting(one)));
  return (
    <Section title="Registries that were found">
      <DataTable
        caption="Registries that were found"
        rows={rows}
        keyOf={({ admin }) => admin}
        textOf={({ admin, name, urls, state, source }) => `${admin} ${name} ${urls.join(" ")} ${state} ${source}`}
        empty="Nothing was found yet."
        columns={[
          { title: "Registry", cell: ({ name }) => name ?? NOTHING, sort: ({ name }) => name ?? "" },
          {
            title: "State",
            cell: ({ state }) => <Badge tone={state === "waiting" ? "warn" : "good"}>{state}</Badge>,
            sort: ({ state }) => state,
          },
          { title: "URLs", cell: (row) => <Difference row={row} /> },
          { title: "Source", cell: ({ source }) => <code>{shorten(source ?? NOTHING, 60)}</code> },
          { title: "Since", cell: ({ since }) => <When at={since} />, sort: ({ since }) => since ?? "" },
          { title: "Admin", cell: ({ admin }) => <code title={admin}>{shorten(admin, 32)}</code> },
          ...(isReadonly
            ? []
            : [{ title: "Approval", cell: (row: Found) => isWaiting(row) && <Approval row={row} onDone={refresh} /> }]),
        ]}
      />
    </Section>
  );
}

function isWaiting({ state }: Found): boolean {
  return state === "waiting";
}

async function readDiscovery(signal: AbortSignal): Promise<DiscoveryAnswer | "off"> {
  const { config } = await store.ask<ConfigAnswer>("config", { signal });
  if ((config as { readonly discovery?: unknown }).discovery === undefined) return "off";
  return await store.ask<DiscoveryAnswer>("discovery", { signal });
}

/** What is in use; what would come is marked, and so is what would go. */
function Difference({ row: { urls, proposed } }: { readonly row: Found }) {
  const next = proposed?.urls;
  const added = next?.filter((url) => !urls.includes(url)) ?? [];
  return (
    <ul class="diff">
      {urls.map((url) =>
        next === undefined || next.includes(url) ? (
          <li key={url}>
            <code>{url}</code>
          </li>
        ) : (
          <li key={url}>
            <del>
              <code>{url}</code>
            </del>{" "}
            would go
          </li>
        ),
      )}
      {added.map((url) => (
        <li key={url}>
          <ins>
            <code>{url}</code>
          </ins>{" "}
          would come
        </li>
      ))}
    </ul>
  );
}

function Approval({ row: { admin }, onDone }: { readonly row: Found; readonly onDone: () => void }) {
  const [problem, setProblem] = useState<string | undefined>();
  const [isRunning, setRunning] = useState(false);
  async function answer(approve: boolean): Promise<void> {
    setRunning(true);
    setProblem(undefined);
    try {
      await store.ask("discovery", { method: "POST", body: { admin, approve } });
      store.set({ notice: approve ? "Approved." : "Refused." });
      onDone();
    } catch (error) {
      setProblem(messageOf(error));
    } finally {
      setRunning(false);
    }
  }
  return (
    <span class="actions">
      <button
        type="button"
        class="small primary"
        disabled={isRunning}
        onClick={() => void answer(true)}
        aria-label={`Approve ${admin}`}
      >
        Approve
      </button>
      <button
        type="button"
        class="small"
        disabled={isRunning}
        onClick={() => void answer(false)}
        aria-label={`Refuse ${admin}`}
      >
        Refuse
      </button>
      {problem !== undefined && <span role="alert">{problem}</span>}
    </span>
  );
}
