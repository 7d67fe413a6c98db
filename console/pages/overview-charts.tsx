import type { HistoryAnswer } from "../../src/operations/answers.ts";
import { Chart, type Line } from "../components/chart.tsx";
import { sayBytes, sayMilliseconds, sayRate, sayShare } from "../format.ts";
import { perSecond, sumOf } from "../history.ts";

const OUTCOMES = ["hit", "stale", "revalidated", "miss", "bypass", "refused"];

/** The last hour of everything together. */
export function OverviewCharts({ history }: { readonly history: HistoryAnswer }) {
  const { times, requests, errors, latencyMs, upstreams } = history;
  const rates = (counts: readonly number[]) => perSecond(counts, history);
  const outcomes = [...OUTCOMES, ...Object.keys(requests).filter((each) => !OUTCOMES.includes(each))].slice(0, 7);
  const calls = sumOf(
    upstreams.map((each) => each.calls),
    times.length,
  );
  const failed = sumOf(
    upstreams.map((each) => each.failed),
    times.length,
  );
  return (
    <div class="charts">
      <Chart
        title="Requests a second, by outcome"
        metric="registry_gateway_requests_total"
        times={times}
        say={sayRate}
        lines={outcomes.flatMap((label, i) =>
          requests[label] === undefined ? [] : [{ label, values: rates(requests[label]), color: colorAt(i) }],
        )}
      />
      <Chart
        title="Hit ratio"
        metric="registry_gateway_cache_answers_total"
        times={times}
        say={sayShare}
        most={1}
        lines={[{ label: "hit ratio", values: history.hitRatio, color: 1 }]}
      />
      <Chart
        title="Errors a second, by code"
        metric="registry_gateway_errors_total"
        times={times}
        say={sayRate}
        lines={errorLines(errors, times.length, rates)}
      />
      <Chart
        title="Latency"
        metric="registry_gateway_request_duration_seconds"
        times={times}
        say={sayMilliseconds}
        lines={[
          { label: "p50", values: latencyMs.p50, color: 1 },
          { label: "p99", values: latencyMs.p99, color: 2 },
        ]}
      />
      <Chart
        title="Upstream calls a second"
        metric="registry_gateway_upstream_attempts_total"
        times={times}
        say={sayRate}
        lines={[
          { label: "spared", values: rates(history.callsSpared), color: 1 },
          { label: "made", values: rates(calls), color: 3 },
          { label: "failed", values: rates(failed), color: 6 },
        ]}
      />
      <Chart
        title="Slowest upstreams, p99"
        metric="registry_gateway_upstream_attempt_duration_seconds"
        times={times}
        say={sayMilliseconds}
        lines={slowest(upstreams)}
      />
      <Chart
        title="Memory"
        metric="registry_gateway_cache_bytes"
        times={times}
        say={sayBytes}
        lines={[
          { label: "all processes", values: history.residentBytes, color: 3 },
          { label: "cache", values: history.cacheBytes, color: 1 },
        ]}
      />
      <Chart
        title="Event loop delay, p99"
        metric="registry_gateway_event_loop_delay_seconds"
        times={times}
        say={sayMilliseconds}
        lines={[{ label: "delay", values: history.eventLoopDelayMs, color: 2 }]}
      />
    </div>
  );
}

function colorAt(place: number): Line["color"] {
  return ((place % 7) + 1) as Line["color"];
}

/** The six codes with most errors, and the others together. */
function errorLines(
  errors: HistoryAnswer["errors"],
  length: number,
  rates: (counts: readonly number[]) => number[],
): Line[] {
  const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
  const sorted = Object.entries(errors).toSorted(([, one], [, other]) => sum(other) - sum(one));
  const lines = sorted
    .slice(0, 6)
    .map(([label, counts], i): Line => ({ label, values: rates(counts), color: colorAt(i) }));
  const others = sorted.slice(6).map(([, counts]) => counts);
  if (others.length > 0) lines.push({ label: "others", values: rates(sumOf(others, length)), color: 7 });
  return lines.length > 0 ? lines : [{ label: "errors", values: Array.from({ length }, () => 0), color: 6 }];
}

function slowest(upstreams: HistoryAnswer["upstreams"]): Line[] {
  const most = (values: readonly (number | null)[]) => Math.max(-1, ...values.filter((value) => value !== null));
  return upstreams
    .filter(({ upstream, latencyMs }) => upstream !== null && most(latencyMs.p99) >= 0)
    .toSorted((one, other) => most(other.latencyMs.p99) - most(one.latencyMs.p99))
    .slice(0, 5)
    .map(({ upstream, latencyMs }, i) => ({ label: upstream!, values: latencyMs.p99, color: colorAt(i) }));
}
