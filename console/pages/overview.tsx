import { LATENCY_BOUNDS } from "../../src/observe/totals.ts";
import type { Health } from "../../src/operations/types.ts";
import type { PageProps } from "../app.tsx";
import { Chart } from "../chart.tsx";
import { latency, rate, sayFigure, share } from "../format.ts";
import { Figures } from "../parts.tsx";
import { Purge } from "../purge.tsx";
import { quantileOf, rateOf, type Samples, series, shareOf } from "../samples.ts";
import { RegistriesTable } from "./registries.tsx";

/** The sentence, six figures of the last minute, four charts of what this page saw, and the registries. */
export function OverviewPage({ status, samples, now }: PageProps) {
  return (
    <>
      <Sentence health={status.health} />
      <LastMinute samples={samples} />
      <Charts samples={samples} />
      <section class="card">
        <h2>
          Registries <span class="dim num">{status.upstreams.length}</span>
        </h2>
        <RegistriesTable status={status} samples={samples} now={now} />
        <p class="buttons start">
          <Purge upstream={undefined} />
        </p>
      </section>
    </>
  );
}

/** Cause first; then what clients notice, and each further thing that is wrong. */
function Sentence({ health }: { readonly health: Health }) {
  const told = health.lines.filter(({ runbook }) => runbook !== undefined);
  // The sentence begins with the worst line, where anything is wrong.
  const [worst, others] = health.level === "well" ? [undefined, told] : [told[0], told.slice(1)];
  return (
    <section class={`say ${health.level}`} aria-live="polite">
      <h1>{health.sentence}</h1>
      {worst?.effect !== undefined && <p>{worst.effect}</p>}
      {others.map(({ name, text, effect }) => (
        <p key={name}>
          <strong>{text}.</strong> {effect}
        </p>
      ))}
    </section>
  );
}

function LastMinute({ samples }: { readonly samples: Samples }) {
  const failed = rateOf(samples, ({ totals }) => totals.failed);
  const quantile = (part: number) => quantileOf(samples, part, ({ totals }) => totals.latency, LATENCY_BOUNDS);
  const calls = rateOf(samples, ({ upstreams }) => upstreams.reduce((sum, { totals }) => sum + totals.attempts, 0));
  return (
    <Figures
      figures={[
        ["Requests", rate(rateOf(samples, ({ totals }) => totals.requests))],
        [
          "From the cache",
          share(
            shareOf(
              samples,
              ({ totals }) => totals.hits,
              ({ totals }) => totals.cacheable,
            ),
          ),
        ],
        ["Calls to registries", rate(calls)],
        ["Errors, 5xx", rate(failed), (failed ?? 0) > 0 ? "bad" : "calm"],
        ["Answer, p50", latency(quantile(0.5))],
        ["Answer, p99", latency(quantile(0.99))],
      ]}
    />
  );
}

function Charts({ samples }: { readonly samples: Samples }) {
  const sayRate = (value: number) => sayFigure(rate(value));
  const p99 = (two: Samples) => quantileOf(two, 0.99, ({ totals }) => totals.latency, LATENCY_BOUNDS);
  const limited = (two: Samples) => rateOf(two, ({ totals }) => totals.failed + totals.limited);
  const calls = (two: Samples) =>
    rateOf(two, ({ upstreams }) => upstreams.reduce((sum, { totals }) => sum + totals.attempts, 0));
  return (
    <div class="charts">
      <Chart
        title="Requests"
        tone="accent"
        say={sayRate}
        points={series(samples, (two) => rateOf(two, ({ totals }) => totals.requests))}
      />
      <Chart title="Errors" note="5xx and 429" tone="bad" say={sayRate} points={series(samples, limited)} />
      <Chart title="Calls to registries" tone="accent" say={sayRate} points={series(samples, calls)} />
      <Chart
        title="Answer, p99"
        tone="accent"
        say={(value) => sayFigure(latency(value))}
        points={series(samples, p99)}
      />
    </div>
  );
}
