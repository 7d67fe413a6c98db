import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import type { ConfigAnswer, RequestsAnswer } from "../../src/operations/answers.ts";
import { type Column, DataTable } from "../components/data-table.tsx";
import { Badge, Blank, Section } from "../components/parts.tsx";
import { messageOf } from "../api.ts";
import { curlOf, type PublicAddress } from "../curl.ts";
import { NOTHING, sayBytes, sayClock, sayMilliseconds } from "../format.ts";
import type { Tone } from "../health.ts";
import { usePoll } from "../polling.ts";
import { formatRoute } from "../route.ts";
import { store } from "../store.ts";
import { sayCount } from "../../src/words/quantity.ts";

type Request = RequestsAnswer["requests"][number];

/** As many as the gateway keeps itself. */
const MOST = 500;

const FILTERS = ["outcome", "code", "upstream", "client"] as const;
type Filters = Readonly<Partial<Record<(typeof FILTERS)[number], string>>>;

/** What clients ask and get, as it happens. */
export function RequestsPage({ query }: { readonly query: Readonly<Record<string, string>> }) {
  const [isPaused, setPaused] = useState(false);
  const { requests, missed, problem } = useTail(isPaused);
  const filters = pickFilters(query);
  const rows = useMemo(
    () =>
      (requests ?? []).filter((request) =>
        FILTERS.every((key) => filters[key] === undefined || (request[key] ?? "none") === filters[key]),
      ),
    [requests, query],
  );
  const copy = useCopy();
  if (requests === undefined) return <Blank problem={problem}>Asking the gateway…</Blank>;
  return (
    <Section
      title="Latest requests"
      metric="registry_gateway_requests_total"
      aside={
        <button type="button" class="small" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? "Go on" : "Pause"}
        </button>
      }
    >
      <div class="filters">
        {FILTERS.map((key) => (
          <Filter key={key} name={key} filters={filters} requests={requests} />
        ))}
        <span class="hint" role="status">
          {sayCount(rows.length, "request")}
          {isPaused && ", paused"}
          {missed > 0 && `, ${missed} came too fast to be shown`}
        </span>
      </div>
      <p class="hint">
        Each is as its log line: no ids, no bodies, no queries. Of hits in memory only those that log.hits picks.
      </p>
      {copy.text !== undefined && <CurlText text={copy.text} isCopied={copy.isCopied} onClose={copy.clear} />}
      <DataTable
        caption="Latest requests"
        rows={rows}
        keyOf={({ at, requestId }) => `${at} ${requestId}`}
        textOf={(request) => Object.values(request).join(" ")}
        empty="No request yet. This page shows them as they come."
        columns={requestColumns(copy.copy)}
      />
    </Section>
  );
}

function pickFilters(query: Readonly<Record<string, string>>): Filters {
  return Object.fromEntries(FILTERS.flatMap((key) => (query[key] === undefined ? [] : [[key, query[key]]])));
}

function requestColumns(onCopy: (request: Request) => void): Column<Request>[] {
  return [
    {
      title: "Time",
      cell: ({ at }: Request) => <time dateTime={at}>{sayClock(Date.parse(at))}</time>,
      sort: ({ at }: Request) => at,
    },
    { title: "Registry", cell: ({ upstream }: Request) => upstream, sort: ({ upstream }: Request) => upstream },
    {
      title: "Operation",
      cell: ({ method, operation }: Request) => `${method} ${operation}`,
      sort: ({ operation }: Request) => operation,
    },
    {
      title: "Status",
      isNumber: true,
      metric: "registry_gateway_requests_total",
      cell: ({ status }: Request) => <Badge tone={statusTone(status)}>{status}</Badge>,
      sort: ({ status }: Request) => status,
    },
    {
      title: "Outcome",
      metric: "registry_gateway_cache_answers_total",
      cell: ({ outcome }: Request) => outcome,
      sort: ({ outcome }: Request) => outcome,
    },
    {
      title: "Took",
      isNumber: true,
      metric: "registry_gateway_request_duration_seconds",
      cell: ({ durationMs }: Request) => sayMilliseconds(durationMs),
      sort: ({ durationMs }: Request) => durationMs ?? -1,
    },
    {
      title: "Bytes",
      isNumber: true,
      cell: ({ bytes }: Request) => sayBytes(bytes),
      sort: ({ bytes }: Request) => bytes ?? -1,
    },
    { title: "Client", cell: ({ client }: Request) => client ?? NOTHING, sort: ({ client }: Request) => client ?? "" },
    {
      title: "Error",
      metric: "registry_gateway_errors_total",
      cell: ({ code, reason, cause }: Request) =>
        code === undefined ? NOTHING : <code class="wrap">{[code, reason, cause].filter(Boolean).join(" · ")}</code>,
      sort: ({ code }: Request) => code ?? "",
    },
    {
      title: "Again",
      cell: (request: Request) => (
        <button
          type="button"
          class="small"
          onClick={() => onCopy(request)}
          aria-label={`Copy as curl: ${request.operation} ${request.upstream}`}
        >
          curl
        </button>
      ),
    },
  ];
}

function statusTone(status: number): Tone {
  if (status >= 500) return "bad";
  return status >= 400 ? "warn" : "good";
}

/** The latest first, no more than the gateway keeps itself. */
function useTail(isPaused: boolean) {
  const [requests, setRequests] = useState<readonly Request[] | undefined>();
  const [missed, setMissed] = useState(0);
  const cursor = useRef<string | undefined>(undefined);
  const { problem } = usePoll({
    every: 2_000,
    isPaused,
    load: async (signal) => {
      const since = cursor.current;
      const answer = await store.ask<RequestsAnswer>("requests", { signal, query: { limit: MOST, since } });
      cursor.current = answer.cursor;
      if (since === undefined) setRequests(answer.requests);
      else if (answer.requests.length > 0) setRequests((before = []) => [...answer.requests, ...before].slice(0, MOST));
      if (answer.missed > 0) setMissed((before) => before + answer.missed);
    },
  });
  return { requests, missed, problem };
}

interface FilterProps {
  readonly name: (typeof FILTERS)[number];
  readonly filters: Filters;
  readonly requests: readonly Request[];
}

const NAMES = { outcome: "Outcome", code: "Error code", upstream: "Registry", client: "Client" };

/** Kept in the address, so that it can be shared. */
function Filter({ name, filters, requests }: FilterProps) {
  const chosen = filters[name];
  const seen = new Set(requests.map((request) => request[name] ?? "none"));
  if (chosen !== undefined) seen.add(chosen);
  function choose(value: string): void {
    const { [name]: _, ...others } = filters;
    location.hash = formatRoute({ page: "requests", query: value === "" ? others : { ...others, [name]: value } });
  }
  return (
    <label>
      {NAMES[name]}
      <select value={chosen ?? ""} onChange={({ currentTarget }) => choose(currentTarget.value)}>
        <option value="">all</option>
        {[...seen].sort().map((value) => (
          <option key={value} value={value}>
            {value}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Copies a command; shows it, too, for the clipboard is not to be had on each page. */
function useCopy() {
  const [text, setText] = useState<string | undefined>();
  const [isCopied, setCopied] = useState(false);
  const copy = useCallback(async (request: Request) => {
    setCopied(false);
    try {
      const command = curlOf(request, await readPublicAddress());
      setText(command ?? "There is no command for it: what was passed through has a path that the log does not keep.");
      if (command !== undefined) setCopied(await toClipboard(command));
    } catch (error) {
      setText(messageOf(error));
    }
  }, []);
  return { text, isCopied, copy: (request: Request) => void copy(request), clear: () => setText(undefined) };
}

/** False: without HTTPS, or where it is not allowed, there is no clipboard. What is shown can be copied by hand. */
async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    store.set({ notice: "Copied." });
    return true;
  } catch {
    return false;
  }
}

/** Where clients ask, as far as the configuration says: a load balancer in front is not known. */
async function readPublicAddress(): Promise<PublicAddress> {
  const { config } = await store.ask<ConfigAnswer>("config");
  const { listen, routing } = config as {
    readonly listen?: { readonly port?: number; readonly tls?: unknown };
    readonly routing?: { readonly prefix?: string };
  };
  const scheme = listen?.tls === undefined ? "http" : "https";
  return { origin: `${scheme}://${location.hostname}:${listen?.port ?? 8080}`, prefix: routing?.prefix ?? "" };
}

interface CurlProps {
  readonly text: string;
  readonly isCopied: boolean;
  readonly onClose: () => void;
}

function CurlText({ text, isCopied, onClose }: CurlProps) {
  return (
    <div class="curl">
      <p>
        {isCopied ? "Copied: " : ""}ids, bodies and credentials are placeholders.{" "}
        <button type="button" class="small" onClick={onClose}>
          Close
        </button>
      </p>
      <pre tabIndex={0}>{text}</pre>
    </div>
  );
}
