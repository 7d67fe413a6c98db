import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";

/** Those of an alert. */
export type Labels = Readonly<Record<string, string>>;

interface Inhibition {
  readonly source_matchers: readonly string[];
  readonly target_matchers: readonly string[];
  readonly equal: readonly string[];
}

const { inhibit_rules: INHIBITIONS } = parse(
  readFileSync(join(import.meta.dirname, "../../config/prometheus/alertmanager.yaml"), "utf8"),
) as { inhibit_rules: readonly Inhibition[] };

/** Whether the labels are as matchers of Alertmanager say: `name="value"`, `!=`, `=~`. */
function isMatched(labels: Labels, matchers: readonly string[]): boolean {
  return matchers.every((matcher) => {
    const [, name, operator, value] = /^(\w+)(=~|!=|=)"(.*)"$/.exec(matcher)!;
    const label = labels[name!] ?? "";
    if (operator === "=~") return new RegExp(`^(?:${value})$`).test(label);
    return (label === value) === (operator === "=");
  });
}

/** The names of those that page somebody, once Alertmanager held back what follows from others. */
export function pagesOf(alerts: readonly Labels[]): readonly string[] {
  const isHeldBack = (target: Labels) =>
    INHIBITIONS.some(({ source_matchers, target_matchers, equal }) => {
      if (!isMatched(target, target_matchers)) return false;
      const isSource = (source: Labels) => source !== target && isMatched(source, source_matchers);
      return alerts.some((source) => isSource(source) && equal.every((name) => source[name] === target[name]));
    });
  return alerts.filter((each) => each.severity === "page" && !isHeldBack(each)).map(({ alertname }) => alertname!);
}
