import type { ReplicasAnswer } from "../operations/answers.ts";
import { sayCount, sayDuration, saySize } from "../words/quantity.ts";
import { askGateway, type OperationsFlags } from "./operations-client.ts";
import { tableLines, wrap } from "./table.ts";

/** `replicas`: those at the same Redis, and in what they differ. */
export function replicas(flags: OperationsFlags): Promise<number> {
  return askGateway(flags, { what: "GET replicas" }, linesOf);
}

function linesOf({ replicas: all, unknown, differences }: ReplicasAnswer): string[] {
  const table = tableLines(all, [
    { head: "REPLICA", shortened: "middle", cell: ({ name, isSelf }) => (isSelf ? `${name} (answers)` : name) },
    { head: "BUILD", cell: ({ version, revision }) => (revision === "-" ? version : `${version} ${revision}`) },
    { head: "UP", isNumber: true, cell: ({ uptimeSeconds: up }) => (up === null ? null : sayDuration(up * 1_000)) },
    { head: "REQUESTS/S", isNumber: true, cell: ({ load }) => load && load.requestsPerSecond },
    { head: "BUSY", isNumber: true, cell: ({ load }) => load && `${Math.round(load.busy * 100)} %` },
    { head: "MEMORY", isNumber: true, cell: ({ load }) => (load?.residentBytes ? saySize(load.residentBytes) : null) },
    { head: "DIFFERS IN", shortened: "end", cell: ({ differs }) => (differs.length === 0 ? null : differs.join(", ")) },
  ]);
  const more =
    unknown === 0
      ? []
      : [`${sayCount(unknown, "more replica")} cannot be read: of an earlier release, or with other seal keys`];
  const notes = [...more, ...differences].flatMap((line) => wrap(line));
  return [...table, ...(notes.length === 0 ? [] : ["", ...notes])];
}
