import type { DiscoveryAnswer } from "../../src/operations/answers.ts";
import { DataTable } from "../components/data-table.tsx";
import { Badge, Blank, Section, When } from "../components/parts.tsx";
import { NOTHING, sayNumber, shorten } from "../format.ts";
import type { Tone } from "../health.ts";
import type { Intent } from "../intent.ts";
import { usePoll } from "../polling.ts";
import { store, useStore } from "../store.ts";

type Found = DiscoveryAnswer["registries"][number];

/** `gone`: in use, and no source lists it any more. */
const TONES: Readonly<Record<Found["state"], Tone>> = { pinned: "good", waiting: "warn", found: "off", gone: "warn" };

/** Registries that were found, are pinned, or wait for approval, with what would change. */
export function DiscoveryPage() {
  const { value, problem } = usePoll<DiscoveryAnswer>({
    load: (signal) => store.ask("discovery", { signal }),
    every: 10_000,
  });
  if (value === undefined) return <Blank problem={problem}>Asking the gateway…</Blank>;
  const { sources, registries, pinFileError } = value;
  if (sources.length === 0 && registries.length === 0) {
    return (
      <Blank>Not configured: every registry is written into the configuration. The key discovery changes that.</Blank>
    );
  }
  return (
    <>
      {pinFileError !== null && <p class="banner">The file of the pins is no good: {pinFileError}</p>}
      <Registries registries={registries} />
      <Sources sources={sources} />
    </>
  );
}

function Registries({ registries }: Pick<DiscoveryAnswer, "registries">) {
  const isReadonly = useStore((state) => state.session?.readonly === true);
  const rows = registries.toSorted((one, other) => Number(isWaiting(other)) - Number(isWaiting(one)));
  return (
    <Section title="Registries that were found">
      <DataTable
        caption="Found registries"
        rows={rows}
        keyOf={({ admin }) => admin}
        textOf={({ admin, name, urls, state, source }) => `${admin} ${name} ${urls.join(" ")} ${state} ${source}`}
        empty="Nothing was found yet."
        columns={[
          { title: "Registry", cell: ({ name }) => name, sort: ({ name }) => name },
          {
            title: "State",
            metric: "registry_gateway_discovery_registries",
            cell: ({ state }) => <Badge tone={TONES[state] ?? "warn"}>{state}</Badge>,
            sort: ({ state }) => state,
          },
          { title: "Why", cell: ({ problem }) => <span class="wrap">{problem ?? NOTHING}</span> },
          { title: "URLs", cell: (row) => <Difference row={row} /> },
          ...(isReadonly ? [] : [{ title: "Approval", cell: (row: Found) => <Approval row={row} /> }]),
          { title: "Source", cell: ({ source }) => <code title={source}>{shorten(source, 60)}</code> },
          { title: "Since", cell: ({ since }) => <When at={since} />, sort: ({ since }) => since },
          { title: "Admin", cell: ({ admin }) => <code title={admin}>{shorten(admin, 32)}</code> },
        ]}
      />
    </Section>
  );
}

function isWaiting({ state }: Found): boolean {
  return state === "waiting";
}

/** What is in use; what would come is marked, and so is what would go. */
function Difference({ row: { urls, proposed, mended } }: { readonly row: Found }) {
  const next = proposed?.urls;
  const added = next?.filter((url) => !urls.includes(url)) ?? [];
  return (
    <ul class="diff">
      {urls.map((url) => (
        <li key={url}>
          {next === undefined || next.includes(url) ? (
            <code>{url}</code>
          ) : (
            <>
              <del>
                <code>{url}</code>
              </del>{" "}
              would go
            </>
          )}
        </li>
      ))}
      {added.map((url) => (
        <li key={url}>
          <ins>
            <code>{url}</code>
          </ins>{" "}
          would come
        </li>
      ))}
      {mended?.map(({ from, to }) => (
        <li key={from} class="hint">
          <code>{to}</code> is used for <code>{from}</code>, as it is listed
        </li>
      ))}
    </ul>
  );
}

function Approval({ row }: { readonly row: Found }) {
  const { admin, name, urls, proposed, state } = row;
  if (state === "gone") {
    const intent: Intent = { kind: "drop", admin, name };
    return (
      <button type="button" class="small danger" onClick={() => store.set({ intent })} aria-label={`Take away ${name}`}>
        Take away…
      </button>
    );
  }
  if (!isWaiting(row)) return null;
  const about = { admin, name, urls: proposed?.urls ?? urls };
  const open = (kind: "approve" | "refuse") => {
    const intent: Intent = { kind, ...about };
    store.set({ intent });
  };
  return (
    <span class="actions">
      <button type="button" class="small" onClick={() => open("approve")} aria-label={`Approve ${name}`}>
        Approve…
      </button>
      <button type="button" class="small" onClick={() => open("refuse")} aria-label={`Refuse ${name}`}>
        Refuse…
      </button>
    </span>
  );
}

function Sources({ sources }: Pick<DiscoveryAnswer, "sources">) {
  return (
    <Section title="Sources">
      <DataTable
        caption="Where registries are found"
        rows={sources}
        keyOf={({ name }) => name}
        empty="No source is configured."
        columns={[
          {
            title: "Source",
            cell: ({ name }) => <code title={name}>{shorten(name, 80)}</code>,
            sort: ({ name }) => name,
          },
          {
            title: "Read",
            metric: "registry_gateway_discovery_source_last_success_timestamp_seconds",
            cell: ({ lastRun }) => <When at={lastRun} />,
          },
          {
            title: "State",
            metric: "registry_gateway_discovery_runs_total",
            cell: ({ lastError }) => (
              <Badge tone={lastError === null ? "good" : "bad"}>{lastError === null ? "good" : "failed"}</Badge>
            ),
          },
          { title: "Why", cell: ({ lastError }) => <span class="wrap">{lastError ?? NOTHING}</span> },
          {
            title: "Lists",
            isNumber: true,
            metric: "registry_gateway_discovery_registries",
            cell: ({ found }) => sayNumber(found),
          },
        ]}
      />
    </Section>
  );
}
