import { CLIENT_ERRORS, type ErrorMeaning, OPERATOR_ERRORS } from "../src/errors.ts";
import { LOG_EVENTS, type LogEvent } from "../src/observe/log-events.ts";
import type { Definition } from "../src/observe/metrics/definition.ts";
import { METRIC_GROUPS } from "../src/observe/metrics/table.ts";
import { LOG_EVENT_TEXTS, type LogEventTexts } from "./log-event-texts.ts";
import { OPERATOR_ERROR_MEANINGS } from "./operator-errors.ts";

function labelsOf({ labels }: Definition): string {
  return Object.entries(labels)
    .map(([name, values]) => {
      // What operators and clients call things; all else is one of a list.
      if (typeof values === "string") return `\`${name}\` (free text)`;
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
          `| \`${definition.name}\` | ${definition.type} | ${labelsOf(definition)} | ${definition.resetBy} | ${definition.help} |`,
      );
      return [
        `## ${group}`,
        "",
        "| metric | type | labels | reset by | what it says |",
        "| --- | --- | --- | --- | --- |",
        ...rows,
      ].join("\n");
    })
    .join("\n\n");
}

/** All log events as a Markdown table. */
export function renderLogEvents(): string {
  const rows = Object.entries<LogEventTexts>(LOG_EVENT_TEXTS).map(([message, { says, fields }]) => {
    const { levels } = LOG_EVENTS[message as LogEvent];
    const names = Object.entries(fields).map(([name, meaning]) => `\`${name}\` ${meaning}`);
    return `| \`${message}\` | ${levels.join(", ")} | ${says} | ${names.join("; ")} |`;
  });
  return ["| msg | level | it says | fields |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

/** All error codes as Markdown tables: those that clients meet, then those of the operations listener. */
export function renderErrorsTable(): string {
  return [
    "## Errors that clients meet",
    "",
    tableOf(CLIENT_ERRORS, CLIENT_ERRORS),
    "",
    "## Errors of the operations listener",
    "",
    tableOf(OPERATOR_ERRORS, OPERATOR_ERROR_MEANINGS),
  ].join("\n");
}

function tableOf<Code extends string>(
  errors: Readonly<Record<Code, { readonly status: number }>>,
  meanings: Readonly<Record<Code, ErrorMeaning>>,
): string {
  const rows = (Object.keys(errors) as Code[]).map((code) => {
    const { means, remedy } = meanings[code];
    return `| \`${code}\` | ${errors[code].status} | ${means} | ${remedy} |`;
  });
  return ["| code | status | what it means | what to do |", "| --- | --- | --- | --- |", ...rows].join("\n");
}
