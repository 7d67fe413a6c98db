import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import { sayCount, sayDuration, saySize } from "../words/quantity.ts";
import { askGateway, type OperationsFlags } from "./operations-client.ts";
import { type Column, formatTable, terminalWidth, wrap } from "./table.ts";
import { printLine } from "./terminal.ts";

/** What the command reads of `GET /replicas`: another release may say more. */
const ReplicasAnswer = Type.Object({
  replicas: Type.Array(
    Type.Object({
      name: Type.String(),
      version: Type.String(),
      revision: Type.String(),
      isSelf: Type.Boolean(),
      uptimeSeconds: Type.Union([Type.Number(), Type.Null()]),
      load: Type.Union([
        Type.Object({ requestsPerSecond: Type.Number(), busy: Type.Number(), residentBytes: Type.Number() }),
        Type.Null(),
      ]),
      differs: Type.Array(Type.String()),
    }),
  ),
  unknown: Type.Number(),
  differences: Type.Array(Type.String()),
});

type ReplicasAnswer = Static<typeof ReplicasAnswer>;

const check = Compile(ReplicasAnswer);

const COLUMNS: readonly Column[] = [
  { head: "REPLICA", shortened: "middle" },
  { head: "BUILD" },
  { head: "UP", isNumber: true },
  { head: "REQUESTS/S", isNumber: true },
  { head: "BUSY", isNumber: true },
  { head: "MEMORY", isNumber: true },
  { head: "DIFFERS IN", shortened: "end" },
];

/** `replicas`: those at the same Redis, and in what they differ. */
export function replicas(flags: OperationsFlags): Promise<number> {
  return askGateway(flags, { path: "replicas" }, (answer) => {
    if (!check.Check(answer)) return false;
    for (const line of linesOf(answer)) printLine(line);
    return true;
  });
}

function linesOf({ replicas: all, unknown, differences }: ReplicasAnswer): string[] {
  const rows = all.map(({ name, version, revision, isSelf, uptimeSeconds, load, differs }) => [
    isSelf ? `${name} (answers)` : name,
    revision === "-" ? version : `${version} ${revision}`,
    uptimeSeconds === null ? "-" : sayDuration(uptimeSeconds * 1_000),
    load === null ? "-" : String(load.requestsPerSecond),
    load === null ? "-" : `${Math.round(load.busy * 100)} %`,
    load === null || load.residentBytes === 0 ? "-" : saySize(load.residentBytes),
    differs.length === 0 ? "-" : differs.join(", "),
  ]);
  const more =
    unknown === 0
      ? []
      : [`${sayCount(unknown, "more replica")} cannot be read: of an earlier release, or with other seal keys`];
  const notes = [...more, ...differences].flatMap((text) => wrap(text, terminalWidth(), "    "));
  return [...formatTable(COLUMNS, rows, terminalWidth()), ...(notes.length === 0 ? [] : ["", ...notes])];
}
