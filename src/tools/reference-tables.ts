import { ERRORS } from "../errors.ts";
import { LOG_EVENTS } from "../observe/log-events.ts";
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

/** All log events as a Markdown table. */
export function renderLogEvents(): string {
  const rows = Object.entries(LOG_EVENTS).map(([message, { levels, says, fields }]) => {
    const names = Object.entries(fields).map(([name, meaning]) => `\`${name}\` ${meaning}`);
    return `| \`${message}\` | ${levels.join(", ")} | ${says} | ${names.join("; ")} |`;
  });
  return ["| msg | level | it says | fields |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

/** All error codes as a Markdown table. */
export function renderErrorsTable(): string {
  const rows = Object.entries(ERRORS).map(
    ([code, { status, means, remedy }]) => `| \`${code}\` | ${status} | ${means} | ${remedy} |`,
  );
  return ["| code | status | what it means | what to do |", "| --- | --- | --- | --- |", ...rows].join("\n");
}
