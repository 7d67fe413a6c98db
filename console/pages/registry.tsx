import type { NodeStatus } from "../../src/upstream/types.ts";
import { LATENCY_BOUNDS } from "../../src/observe/totals.ts";
import type { PageProps } from "../app.tsx";
import { Chart } from "../chart.tsx";
import { latency, NOTHING, rate, sayFigure, sayNumber, sayRelative, saySince, share } from "../format.ts";
import { type Column, Figures, lineOf, sayNode, State, Table } from "../parts.tsx";
import { Purge } from "../purge.tsx";
import { quantileOf, rateOf, series, shareOf } from "../samples.ts";
import { explainLink } from "./explain.tsx";
import { sayLimit, totalsOf } from "./registries.tsx";

/** One registry: its state with the cause, the figures of the last minute, its nodes. */
export function RegistryPage({ status, samples, now, argument: name }: PageProps) {
  const upstream = status.upstreams.find((each) => each.name === name);
  if (upstream === undefined) {
    return (
      <section class="card">
        <h1>{name}</h1>
        <p>
          No enabled upstream has this name. <a href="#/registries">All registries</a>
        </p>
      </section>
    );
  }
  const line = lineOf(status.health, name);
  const latencyOf = (each: typeof status) => totalsOf(each, name)?.latency;
  const quantile = (part: number) => quantileOf(samples, part, latencyOf, LATENCY_BOUNDS);
  const attempts = (each: typeof status) => totalsOf(each, name)?.attempts ?? 0;
  return (
    <>
      <section class={`say ${line?.level ?? "well"}`} aria-live="polite">
        <h1>{line?.text ?? name}</h1>
        {line?.effect !== undefined && <p>{line.effect}</p>}
        {upstream.state === "up" && <p>Up {saySince(upstream.since, now)}.</p>}
      </section>
      <Figures
        figures={[
          ["Calls", rate(rateOf(samples, attempts))],
          ["Failed", share(shareOf(samples, (each) => totalsOf(each, name)?.failed ?? 0, attempts))],
          ["In flight", [sayNumber(upstream.inFlight), ""]],
          ["Waiting", [sayNumber(upstream.waiting), ""], upstream.waiting > 0 ? "warn" : "calm"],
          ["Answer, p50", latency(quantile(0.5))],
          ["Answer, p99", latency(quantile(0.99))],
        ]}
      />
      <div class="charts">
        <Chart
          title="Calls"
          tone="accent"
          say={(value) => sayFigure(rate(value))}
          points={series(samples, (two) => rateOf(two, attempts))}
        />
        <Chart
          title="Answer, p99"
          tone="accent"
          say={(value) => sayFigure(latency(value))}
          points={series(samples, (two) => quantileOf(two, 0.99, latencyOf, LATENCY_BOUNDS))}
        />
      </div>
      <section class="card">
        <h2>
          Nodes <span class="dim num">{upstream.nodes.length}</span>
        </h2>
        <Table
          caption={`Nodes of ${name}`}
          columns={nodeColumns(now)}
          rows={upstream.nodes}
          keyOf={({ url }) => url}
          empty="It has no nodes."
        />
      </section>
      <section class="card facts">
        <dl>
          <dt>Admin</dt>
          <dd class="mono">{upstream.admin ?? "not named yet"}</dd>
          <dt>Your limit</dt>
          <dd>{sayLimit(upstream.limit)}</dd>
          <dt>Mode</dt>
          <dd>{upstream.mode === "normal" ? "normal" : "cache only: nothing is asked of it"}</dd>
          {upstream.credential !== undefined && (
            <>
              <dt>Credential</dt>
              <dd>{upstream.credential}</dd>
            </>
          )}
        </dl>
        <p class="buttons start">
          <Purge upstream={name} />
          <a href={explainLink(status, name)}>Explain its instruments</a>
        </p>
      </section>
    </>
  );
}

function nodeColumns(now: number): readonly Column<NodeStatus>[] {
  return [
    { head: "Node", cell: ({ url }) => <span class="mono">{url}</span> },
    {
      head: "State",
      cell: (node) => {
        const { tone, word } = sayNode(node, now);
        return (
          <>
            <State tone={tone}>{word}</State>
            {node.cause !== undefined && <small class="dim cause">{node.cause}</small>}
          </>
        );
      },
    },
    { head: "Since", cell: ({ since }) => saySince(since, now).replace("since ", "") },
    {
      head: "Last answer",
      cell: ({ lastAnswer }) => (lastAnswer === undefined ? NOTHING : sayRelative(lastAnswer, now)),
    },
    { head: "In flight", isNumber: true, cell: ({ inFlight }) => sayNumber(inFlight) },
  ];
}
