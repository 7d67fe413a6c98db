import { LOG_EVENTS } from "../observe/log-events.ts";

/** All log events as a Markdown table. */
export function renderLogEvents(): string {
  const rows = Object.entries(LOG_EVENTS).map(([message, { levels, says, fields }]) => {
    const names = Object.entries(fields).map(([name, meaning]) => `\`${name}\` ${meaning}`);
    return `| \`${message}\` | ${levels.join(", ")} | ${says} | ${names.join("; ")} |`;
  });
  return ["| msg | level | it says | fields |", "| --- | --- | --- | --- |", ...rows].join("\n");
}
