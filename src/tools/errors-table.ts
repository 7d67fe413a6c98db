import { ERRORS } from "../errors.ts";

/** All error codes as a Markdown table. */
export function renderErrorsTable(): string {
  const rows = Object.entries(ERRORS).map(
    ([code, { status, means, remedy }]) => `| \`${code}\` | ${status} | ${means} | ${remedy} |`,
  );
  return ["| code | status | what it means | what to do |", "| --- | --- | --- | --- |", ...rows].join("\n");
}
