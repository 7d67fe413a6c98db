/** One line of `/metrics`. */
export interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Reads Prometheus's text format; throws at a line that is none of it. */
export function parseExposition(text: string): Series[] {
  return text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const match = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
      if (match === null) throw new Error(`not a line of the text format: ${line}`);
      const [, name, labels = "", value] = match;
      return { name: name!, labels: parseLabels(labels), value: Number(value === "+Inf" ? Infinity : value) };
    });
}

function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [, name, value] of text.matchAll(/([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g)) labels[name!] = value!;
  return labels;
}

/** The name under which the table has the metric of a series. */
export function metricOf(series: string): string {
  return series.replace(/_(?:bucket|sum|count)$/, "");
}
