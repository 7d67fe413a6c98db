import type { AuditAnswer } from "../operations/answers.ts";
import { sayReached } from "../words/reached.ts";
import { askGateway, type OperationsFlags } from "./operations-client.ts";
import { tableLines, wrap } from "./terminal.ts";

interface AuditFlags extends OperationsFlags {
  readonly limit?: unknown;
  readonly before?: unknown;
}

/** `audit`: what operators did, the latest first. */
export function audit({ limit = "50", before, ...flags }: AuditFlags): Promise<number> {
  const query = { limit: String(limit), ...(typeof before === "string" && { before }) };
  return askGateway(flags, { what: "GET audit", query }, linesOf);
}

function linesOf({ actions, next, isShared, unreadable }: AuditAnswer): string[] {
  const table = tableLines(actions, [
    { head: "AT", cell: ({ at }) => at.replace(/\.\d+/, "") },
    { head: "BY", shortened: "end", cell: ({ by }) => by },
    { head: "DID", cell: ({ did }) => did },
    { head: "WHAT", shortened: "end", cell: ({ what }) => JSON.stringify(what) },
    {
      head: "REACHED",
      shortened: "end",
      cell: ({ scope, replicas }) => (replicas === null ? scope : sayReached(replicas)),
    },
  ]);
  const notes = [
    ...(isShared ? [] : ["Of this replica since it started: there is no Redis, or it is away."]),
    ...(unreadable === 0 ? [] : [`${unreadable} cannot be read: sealed with a key that is gone.`]),
    ...(next === null ? [] : [`What was done before: --before ${next}`]),
  ].flatMap((line) => wrap(line));
  return [...table, ...(notes.length === 0 ? [] : ["", ...notes])];
}
