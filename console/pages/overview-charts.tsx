import type { HistoryAnswer } from "../../src/operations/answers.ts";
import { Chart, type Line } from "../components/chart.tsx";
import { sayBytes, sayMilliseconds, sayRate, sayShare } from "../format.ts";
import { lineOf, linesOf, perSecond, totalOf } from "../history.ts";

const OUTCOMES = ["hit", "stale", "revalidated", "miss", "bypass", "refused"];

/** The last hour of everything together. */
export function OverviewCharts({ history }: { readonly history: HistoryAnswer }) {
  const { times } = history;
  const line = (name: string) => lineOf(history, name);
  const rates = (name: string) => perSecond(line(name), history);
  return (
    <div class="charts">
      <Chart
        title="Requests a second, by outcome"
        metric="registry_gateway_requests_total"
        times={times}
        say={sayRate}
        lines={OUTCOMES.map((label, i) => ({ label, values: rates(`requests:${label}`), color: colorAt(i) }))}
      />
      <Chart
        title="Hit ratio"
        metric="registry_gateway_cache_answers_total"
        times={times}
        say={sayShare}
        most={1}
        lines={[{ label: "hit ratio", values: line("hitRatio"), color: 1 }]}
      />
      <Chart
        title="Errors a second, by code"
        metric="registry_gateway_errors_total"
        times={times}
        say={sayRate}
        lines={errorLines(history)}
      />
      <Chart
        title="Latency"
        metric="registry_gateway_request_duration_seconds"
        times={times}
        say={sayMilliseconds}
        lines={[
          { label: "p50", values: line("p50Ms"), color: 1 },
          { label: "p99", values: line("p99Ms"), color: 2 },
        ]}
      />
      <Chart
        title="Upstream calls a second"
        metric="registry_gateway_upstream_attempts_total"
        times={times}
        say={sayRate}
        lines={[
          { label: "spared", values: rates("callsSpared"), color: 1 },
          { label: "made", values: rates("calls"), color: 3 },
          { label: "failed", values: rates("failedCalls"), color: 6 },
        ]}
      />
      <Chart
        title="Slowest upstreams, p99"
        metric="registry_gateway_upstream_attempt_duration_seconds"
        times={times}
        say={sayMilliseconds}
        lines={slowest(history)}
      />
      <Chart
        title="Memory"
        metric="registry_gateway_cache_bytes"
        times={times}
        say={sayBytes}
        lines={[
          { label: "process", values: line("residentBytes"), color: 3 },
          { label: "cache", values: line("cacheBytes"), color: 1 },
        ]}
      />
      <Chart
        title="Event loop delay, p99"
        metric="registry_gateway_event_loop_delay_seconds"
        times={times}
        say={sayMilliseconds}
        lines={[{ label: "delay", values: line("loopDelayMs"), color: 2 }]}
      />
    </div>
  );
}

function colorAt(place: number): Line["color"] {
  return ((place % 7) + 1) as Line["color"];
}

/** The six codes with most errors, and the others together. */
function errorLines(history: HistoryAnswer): Line[] {
  const sorted = linesOf(history, "errors").toSorted(([, one], [, other]) => totalOf(other) - totalOf(one));
  const lines = sorted
    .slice(0, 6)
    .map(([label, counts], i): Line => ({ label, values: perSecond(counts, history), color: colorAt(i) }));
  const rest = sorted.slice(6);
  if (rest.length > 0) {
    const others = history.times.map((_, at) => totalOf(rest.map(([, counts]) => counts[at] ?? 0)));
    lines.push({ label: "others", values: perSecond(others, history), color: 7 });
  }
  return lines.length > 0 ? lines : [{ label: "errors", values: history.times.map(() => 0), color: 6 }];
}

function slowest(history: HistoryAnswer): Line[] {
  const most = (values: readonly (number | null)[]) => Math.max(-1, ...values.filter((value) => value !== null));
  return linesOf(history, "p99Ms")
    .filter(([, values]) => most(values) >= 0)
    .toSorted(([, one], [, other]) => most(other) - most(one))
    .slice(0, 5)
    .map(([label, values], i) => ({ label, values, color: colorAt(i) }));
}
