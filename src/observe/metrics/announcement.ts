import { Gauge, type Registry } from "@prometheus-io/client";
import { ALIAS, ALIAS_OR_NONE } from "./labels.ts";
import { METRICS } from "./table.ts";
import type { Definition } from "./definition.ts";
import { BoundCounter, type BoundHistogram } from "./bound.ts";

/** Counters with more combinations than this begin with the first event. */
const MAX_COMBINATIONS = 24;

/**
 * Begins counters at 0, those of these upstreams or those of none: a counter that appears with its first event has
 * already lost it, for a rate needs something to rise from.
 */
export function announce(registry: Registry, upstreams: readonly string[] | undefined): void {
  for (const definition of Object.values<Definition>(METRICS)) {
    const metric = registry.getSingleMetric(definition.name);
    if (!(metric instanceof BoundCounter)) continue;
    const isAboutUpstreams = definition.labels["upstream"] !== undefined;
    if (isAboutUpstreams !== (upstreams !== undefined)) continue;
    const children = combinations(Object.entries(definition.labels), upstreams ?? []);
    if (children.length > MAX_COMBINATIONS * Math.max(1, upstreams?.length ?? 1)) continue;
    for (const labels of children) metric.inc(labels, 0);
  }
}

/**
 * Forgets the series of upstreams that are configured no more, so that reloads do not add to them for ever.
 *
 * @param kept the aliases of those that are
 */
export async function forgetUpstreams(registry: Registry, kept: ReadonlySet<string>): Promise<void> {
  const isForgotten = ({ upstream }: Readonly<Record<string, string>>) =>
    upstream !== undefined && upstream !== "none" && !kept.has(upstream);
  for (const { name, labels } of Object.values<Definition>(METRICS)) {
    if (labels["upstream"] === undefined) continue;
    const metric = registry.getSingleMetric(name) as BoundCounter | BoundHistogram | Gauge;
    if (!(metric instanceof Gauge)) metric.forget(isForgotten);
    else for (const { labels: own } of (await metric.get()).values) if (isForgotten(own)) metric.remove(own);
  }
}

type Pair = readonly [label: string, value: string];

/** All sets of labels that these values make. */
function combinations(
  labels: readonly (readonly [string, readonly string[] | string])[],
  aliases: readonly string[],
): Record<string, string>[] {
  let children: (readonly Pair[])[] = [[]];
  for (const [label, values] of labels) {
    const pairs = valuesOf(values, aliases).map((value): Pair => [label, value]);
    children = children.flatMap((child) => pairs.map((pair) => child.concat([pair])));
  }
  return children.map((child) => Object.fromEntries(child));
}

function valuesOf(values: readonly string[] | string, aliases: readonly string[]): readonly string[] {
  if (typeof values !== "string") return values;
  return values === ALIAS || values === ALIAS_OR_NONE ? aliases : [];
}
