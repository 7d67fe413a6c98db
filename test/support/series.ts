import type { Definition } from "../../src/observe/metrics/definition.ts";
import { ALIAS_OR_NONE, CLIENT, OPERATION, OUTCOME, SOURCE } from "../../src/observe/metrics/labels.ts";
import { METRICS } from "../../src/observe/metrics/table.ts";
import { CACHED_OPERATIONS } from "../../src/spec/operations.ts";

/** The most sources that can be configured. */
const MOST_SOURCES = 16;

const CACHED = CACHED_OPERATIONS.length;
const UNCACHED = OPERATION.length - CACHED;

/** Fewer series than all combinations of label values, where some cannot occur. */
const FEWER: Readonly<Record<string, (upstreams: number) => number>> = {
  // 1xx is never final; 3xx is a 304 of the cache or passed through.
  [METRICS.requests.name]: (upstreams) => (upstreams + 1) * (OPERATION.length * 4 + CACHED + 1),
  // What is not cached is sent on, refused, or answered by what was kept of a factory or context; extra paths are kept, too.
  [METRICS.requestDuration.name]: () => (CACHED + 1) * OUTCOME.length + (UNCACHED - 1) * 3,
  [METRICS.buildInfo.name]: () => 1,
};

/** The most series that a metric has with this number of upstreams, and no clients that are told apart. */
export function seriesOf(definition: Definition, upstreams: number): number {
  const countOf = (values: readonly string[] | string): number => {
    if (typeof values !== "string") return values.length;
    if (values === CLIENT) return 0;
    if (values === SOURCE) return MOST_SOURCES;
    return upstreams + (values === ALIAS_OR_NONE ? 1 : 0);
  };
  const combinations = Object.values(definition.labels).reduce((product, values) => product * countOf(values), 1);
  const children = FEWER[definition.name]?.(upstreams) ?? combinations;
  return definition.type === "histogram" ? children * (definition.buckets.length + 3) : children;
}
