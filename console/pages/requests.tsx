import { useState } from "preact/hooks";
import type { RequestLine } from "../../src/observe/request-log.ts";
import { api } from "../api.ts";
import { NOTHING, sayBytes, sayMilliseconds, sayTime, shorten } from "../format.ts";
import { type Column, Problem, State, Table, type Tone } from "../parts.tsx";
import { usePolling } from "../polling.ts";

/** So many rows are looked through at a glance; the others come when they are asked for. */
const FIRST_ROWS = 100;

/** The last requests of this replica; fresh hits are left out unless `log.hits` has them logged. */
export function RequestsPage() {
  const [isPaused, setPaused] = useState(false);
  const [words, setWords] = useState("");
  const [failedAlone, setFailedAlone] = useState(false);
  const [showsAll, setShowsAll] = useState(false);
  const { answer, problem } = usePolling(api.requests, isPaused);
  const all = answer?.requests ?? [];
  const shown = all.filter((line) => (!failedAlone || line.status >= 400) && hasWords(line, words));
  return (
    <section class="card">
      <h1>
        Requests{" "}
        <span class="dim num">{shown.length === all.length ? all.length : `${shown.length} of ${all.length}`}</span>
      </h1>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <input
          type="search"
          aria-label="Words to look for"
          placeholder="Registry, path, code, client, request id"
          value={words}
          onInput={({ currentTarget }) => setWords(currentTarget.value)}
        />
        <label>
          <input
            type="checkbox"
            checked={failedAlone}
            onChange={({ currentTarget }) => setFailedAlone(currentTarget.checked)}
          />
          Errors only
        </label>
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? "Go on" : "Pause"}
        </button>
      </form>
      <Problem text={problem} />
      <Table
        caption="The last requests"
        columns={COLUMNS}
        rows={showsAll ? shown : shown.slice(0, FIRST_ROWS)}
        keyOf={({ requestId, at }) => `${requestId} ${at}`}
        empty={all.length === 0 ? "No request yet but fresh hits, which are not kept here." : "None is like this."}
      />
      {!showsAll && shown.length > FIRST_ROWS && (
        <p class="buttons start">
          <button type="button" onClick={() => setShowsAll(true)}>
            Show all {shown.length}
          </button>
        </p>
      )}
    </section>
  );
}

function hasWords(line: RequestLine, words: string): boolean {
  const text = [line.path, line.operation, line.upstream, line.client, line.code, line.status, line.requestId]
    .join(" ")
    .toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function toneOf({ status, code }: RequestLine): Tone {
  if (status < 400) return "good";
  return status >= 500 && code !== undefined ? "bad" : "warn";
}

const COLUMNS: readonly Column<RequestLine>[] = [
  { head: "At", cell: ({ at }) => <span class="num">{sayTime(at)}</span> },
  {
    head: "Status",
    cell: (line) => (
      <State tone={toneOf(line)}>
        <span class="num">{line.status}</span> {line.code ?? line.outcome ?? ""}
      </State>
    ),
  },
  {
    head: "Request",
    cell: ({ method, path, operation, causes, requestId }) => (
      <details>
        <summary title={path}>{operation ?? `${method} ${shorten(path)}`}</summary>
        <p class="mono">
          {method} {path}
        </p>
        {causes?.map((cause) => (
          <p key={cause}>{cause}</p>
        ))}
        <p class="dim mono">{requestId}</p>
      </details>
    ),
  },
  {
    head: "Registry",
    cell: ({ upstream, node }) =>
      upstream === undefined ? NOTHING : `${upstream}${node === undefined ? "" : `, node ${node}`}`,
  },
  { head: "Client", cell: ({ client, address }) => address ?? client ?? NOTHING },
  {
    head: "Took",
    isNumber: true,
    cell: ({ ms, waited, attempts }) =>
      [
        sayMilliseconds(ms),
        ...(waited === undefined ? [] : [`waited ${sayMilliseconds(waited)}`]),
        ...((attempts ?? 0) > 1 ? [`${attempts} attempts`] : []),
      ].join(", "),
  },
  { head: "Size", isNumber: true, cell: ({ bytes }) => sayBytes(bytes) },
];
