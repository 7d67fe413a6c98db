import type { Definition } from "../observe/metrics/definition.ts";
import { METRIC_GROUPS } from "../observe/metrics/table.ts";

function labelsOf({ labels }: Definition): string {
  return Object.entries(labels)
    .map(([name, values]) => {
      if (typeof values === "string") return `\`${name}\``;
      const shown = values.length > 8 ? "…" : values.join(" ");
      return shown === "…" ? `\`${name}\`` : `\`${name}\` (${shown})`;
    })
    .join(", ");
}

/** All metrics as Markdown tables, one for each group. */
export function renderMetricsTable(): string {
  return Object.entries(METRIC_GROUPS)
    .map(([group, metrics]) => {
      const rows = Object.values<Definition>(metrics).map(
        (definition) =>
          `| \`${definition.name}\` | ${definition.type} | ${labelsOf(definition)} | ${definition.help} |`,
      );
      return [
        `## ${group}`,
        "",
        "| metric | type | labels | what it says |",
        "| --- | --- | --- | --- |",
        ...rows,
      ].join("\n");
    })
    .join("\n\n");
}
