import type { Definition } from "../src/observe/metrics/definition.ts";
import type { LabelValues } from "../src/observe/metrics/labels.ts";
import { type MetricKey, METRICS } from "../src/observe/metrics/table.ts";

/** Which values of a label are meant: one, some, or all but some. */
type Match<Value> = Value | readonly Value[] | { readonly not: readonly Value[] };

type Matches<Key extends MetricKey> = {
  readonly [Label in keyof LabelValues<(typeof METRICS)[Key]["labels"]>]?: Match<
    LabelValues<(typeof METRICS)[Key]["labels"]>[Label]
  >;
};

/** The series of a histogram. */
type Suffix = "_bucket" | "_count" | "_sum";

/**
 * Writes PromQL about the gateway's metrics: names come from the table, and labels that a metric does not have, or
 * values that a label cannot have, are compile errors.
 */
export class Queries {
  private readonly scope: readonly string[];
  /** The window of rates. */
  readonly range: string;

  /** @param scope matchers that every selector gets, such as `job=~"$job"` */
  constructor(scope: readonly string[], range: string) {
    this.scope = scope;
    this.range = range;
  }

  /** The same with rates over another window. */
  over(range: string): Queries {
    return new Queries(this.scope, range);
  }

  /** The series of a metric. */
  series<Key extends MetricKey>(key: Key, matches: Matches<Key> = {}, suffix: Suffix | "" = ""): string {
    const definition: Definition = METRICS[key];
    const ofUpstream = definition.labels["upstream"] !== undefined;
    const scope = this.scope.filter((matcher) => ofUpstream || !matcher.startsWith("upstream"));
    const matchers = [
      ...scope,
      ...Object.entries(matches).map(([label, match]) => matcher(label, match as Match<string>)),
    ];
    return `${definition.name}${suffix}${matchers.length === 0 ? "" : `{${matchers.join(",")}}`}`;
  }

  rate<Key extends MetricKey>(key: Key, matches: Matches<Key> = {}, suffix: Suffix | "" = ""): string {
    return `rate(${this.series(key, matches, suffix)}[${this.range}])`;
  }

  increase<Key extends MetricKey>(key: Key, matches: Matches<Key> = {}, suffix: Suffix | "" = ""): string {
    return `increase(${this.series(key, matches, suffix)}[${this.range}])`;
  }

  /** The highest value of a gauge within the window: what was over between two looks counts. */
  highest<Key extends MetricKey>(key: Key, matches: Matches<Key> = {}): string {
    return `max_over_time(${this.series(key, matches)}[${this.range}])`;
  }

  /** A quantile of a histogram, a line for each value of `by`. */
  quantile<Key extends MetricKey>(
    quantile: number,
    key: Key,
    by: readonly string[],
    matches: Matches<Key> = {},
  ): string {
    return `histogram_quantile(${quantile}, ${sum(["le", ...by], this.rate(key, matches, "_bucket"))})`;
  }
}

function matcher(label: string, match: Match<string>): string {
  if (typeof match === "string") return `${label}="${match}"`;
  if ("not" in match) return `${label}!~"${match.not.join("|")}"`;
  return `${label}=~"${match.join("|")}"`;
}

/** A number as a person would write it: what products of binary fractions have behind the 12th digit is noise. */
export function decimal(value: number): string {
  return String(Number(value.toPrecision(12)));
}

export function sum(by: readonly string[], expression: string): string {
  return aggregate("sum", by, expression);
}

export function aggregate(operator: "sum" | "max" | "min", by: readonly string[], expression: string): string {
  return by.length === 0 ? `${operator}(${expression})` : `${operator} by (${by.join(", ")}) (${expression})`;
}

/**
 * The share that `part` is of `whole`, both summed over `by`: 0 where there is a whole but no part yet, nothing where
 * there is no whole.
 */
export function ratio(by: readonly string[], part: string, whole: string): string {
  const total = sum(by, whole);
  return `(${sum(by, part)} or 0 * ${total}) / (${total} > 0)`;
}
