import { type ErrorKind, ERRORS, OPERATOR_ERRORS } from "../src/error-table.ts";

function table(errors: Readonly<Record<string, ErrorKind>>): string {
  const rows = Object.entries(errors).map(([code, { status, means, remedy }]) => {
    return `| \`${code}\` | ${status} | ${means} | ${remedy} |`;
  });
  return ["| code | status | what it means | what to do |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

/** All error codes, in Markdown. */
export function errorTables(): string {
  return [
    "## Errors that clients meet",
    table(ERRORS),
    "## Errors of the operations listener",
    table(OPERATOR_ERRORS),
  ].join("\n\n");
}
