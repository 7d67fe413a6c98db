import { useEffect, useState } from "preact/hooks";
import type { ExplainedEntry } from "../../src/cache/types.ts";
import type { ExplainAnswer, Status } from "../../src/operations/types.ts";
import { api } from "../api.ts";
import type { PageProps } from "../app.tsx";
import { sayBytes, saySpan } from "../format.ts";
import { type Column, Problem, Table } from "../parts.tsx";

const MOST_EXAMPLES = 5;

/** The page that explains what clients get of a registry's instruments. */
export function explainLink({ prefix }: Status, registry: string): string {
  return `#/explain/${encodeURIComponent(`${prefix}/${registry}/registry/metadata/v1/instruments`)}`;
}

/** Which registry a path means, what is stored of it, and what the next request gets. */
export function ExplainPage({ status, argument }: PageProps) {
  const [path, setPath] = useState(argument);
  const [answer, setAnswer] = useState<ExplainAnswer>();
  const [problem, setProblem] = useState<string>();
  async function explain(asked: string) {
    try {
      setAnswer(await api.explain(asked));
      setProblem(undefined);
    } catch (error) {
      setAnswer(undefined);
      setProblem((error as Error).message);
    }
  }
  useEffect(() => {
    if (argument !== "") void explain(argument);
  }, [argument]);
  return (
    <section class="card">
      <h1>Explain a path</h1>
      <p class="dim">What a client gets for it, and why. No registry is asked.</p>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          void explain(path);
        }}
      >
        <input
          class="wide mono"
          required
          aria-label="A path of the public listener"
          placeholder="/registry/metadata/v1/instruments?pageSize=100"
          value={path}
          onInput={({ currentTarget }) => setPath(currentTarget.value)}
        />
        <button type="submit" class="primary">
          Explain
        </button>
      </form>
      <Problem text={problem} />
      {answer === undefined ? (
        <p class="dim examples">
          {status.upstreams.slice(0, MOST_EXAMPLES).map(({ name }) => (
            <a key={name} href={explainLink(status, name)}>
              Instruments of {name}
            </a>
          ))}
        </p>
      ) : (
        <Explanation {...answer} />
      )}
    </section>
  );
}

function Explanation({ upstream, admin, operation, text, cache }: ExplainAnswer) {
  return (
    <>
      <h2>
        <a href={`#/registries/${encodeURIComponent(upstream)}`}>{upstream}</a>, {operation}
      </h2>
      {admin !== undefined && <p class="dim mono">{admin}</p>}
      {text.map((sentence) => (
        <p key={sentence}>{sentence}</p>
      ))}
      {cache !== undefined && cache.entries.length > 0 && (
        <Table caption="What is stored" columns={COLUMNS} rows={cache.entries} keyOf={({ tier }) => tier} empty="" />
      )}
    </>
  );
}

const span = (milliseconds: number) => (milliseconds <= 0 ? "over" : saySpan(milliseconds));

const COLUMNS: readonly Column<ExplainedEntry>[] = [
  { head: "Stored in", cell: ({ tier }) => (tier === "memory" ? "memory" : "Redis") },
  { head: "Use", cell: ({ use }) => use.replaceAll("-", " ") },
  { head: "Age", isNumber: true, cell: ({ age }) => saySpan(age) },
  { head: "Fresh for", isNumber: true, cell: ({ freshFor }) => span(freshFor) },
  { head: "Stale while refreshed", isNumber: true, cell: ({ refreshFor }) => span(refreshFor) },
  { head: "Stale on errors", isNumber: true, cell: ({ errorFor }) => span(errorFor) },
  { head: "Size", isNumber: true, cell: ({ bytes }) => sayBytes(bytes) },
];
