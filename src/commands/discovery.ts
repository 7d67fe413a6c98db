import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import { UsageError } from "./command-line.ts";
import { Replicas, sayScope } from "./gateway-status.ts";
import { askGateway, type OperationsFlags } from "./operations-client.ts";
import { type Column, formatTable, terminalWidth, wrap } from "./table.ts";
import { printLine } from "./terminal.ts";

const Registry = Type.Object({
  admin: Type.String(),
  name: Type.String(),
  urls: Type.Array(Type.String()),
  state: Type.String(),
  proposed: Type.Optional(
    Type.Object({ urls: Type.Array(Type.String()), since: Type.String(), source: Type.String() }),
  ),
  mended: Type.Optional(Type.Array(Type.Object({ from: Type.String(), to: Type.String() }))),
  problem: Type.Optional(Type.String()),
});

/** What this command reads of `GET /discovery`: an older or newer gateway may say less or more. */
const Report = Type.Object({
  sources: Type.Array(
    Type.Object({
      name: Type.String(),
      lastRun: Type.Union([Type.String(), Type.Null()]),
      lastError: Type.Union([Type.String(), Type.Null()]),
      found: Type.Number(),
    }),
  ),
  registries: Type.Array(Registry),
  pinFileError: Type.Optional(Type.Union([Type.String(), Type.Null()])),
});

const Decision = Type.Object({
  registry: Type.Union([Registry, Type.Null()]),
  scope: Type.String(),
  replicas: Replicas,
});

const reportCheck = Compile(Report);
const decisionCheck = Compile(Decision);

const SOURCE_COLUMNS: readonly Column[] = [
  { head: "SOURCE" },
  { head: "FOUND", isNumber: true },
  { head: "READ" },
  { head: "ERROR", shortened: "end" },
];

const REGISTRY_COLUMNS: readonly Column[] = [
  { head: "REGISTRY" },
  { head: "STATE" },
  { head: "NODES", isNumber: true },
  { head: "ADMIN", shortened: "middle" },
];

/** `discovery`: what a running gateway has found, or decides about what waits. */
export function discovery(flags: OperationsFlags, words: readonly string[]): Promise<number> {
  const [verb, admin, ...urls] = words;
  if (verb === undefined) {
    return askGateway(flags, { path: "discovery" }, (answer) => {
      if (!reportCheck.Check(answer)) return false;
      for (const line of reportLines(answer)) printLine(line);
      return true;
    });
  }
  if ((verb !== "approve" && verb !== "refuse") || admin === undefined) {
    throw new UsageError(
      "discovery takes nothing, approve ADMIN, or refuse ADMIN, with the URLs that you saw proposed",
    );
  }
  const body = { admin, approve: verb === "approve", ...(urls.length > 0 && { urls }) };
  return askGateway(flags, { path: "discovery", body }, (answer) => {
    if (!decisionCheck.Check(answer)) return false;
    const { registry } = answer;
    const now = registry === null ? "taken away" : `${registry.state}${placesOf(registry.urls)}`;
    printLine(`${verb === "approve" ? "approved" : "refused"}: ${admin}: ${now}; ${sayScope(answer)}`);
    return true;
  });
}

function placesOf(urls: readonly string[]): string {
  return urls.length === 0 ? "" : ` at ${urls.join(", ")}`;
}

function reportLines({ sources, registries, pinFileError }: Static<typeof Report>): string[] {
  if (sources.length === 0) return ["discovery is not configured"];
  const width = terminalWidth();
  const read = sources.map(({ name, found, lastRun, lastError }) => [
    name,
    String(found),
    lastRun ?? "never",
    lastError ?? "",
  ]);
  const rows = registries.map(({ name, state, urls, admin }) => [name, state, String(urls.length), admin]);
  return [
    ...formatTable(SOURCE_COLUMNS, read, width),
    ...(typeof pinFileError === "string" ? ["", `The pin file ${pinFileError}.`] : []),
    "",
    ...formatTable(REGISTRY_COLUMNS, rows, width),
    ...registries.flatMap((registry) => detailsOf(registry).flatMap((line) => wrap(line, width, "    "))),
  ];
}

/** What has to be known of a registry besides its state. */
function detailsOf({ name, urls, proposed, mended = [], problem }: Static<typeof Registry>): string[] {
  return [
    ...(proposed === undefined
      ? []
      : [
          `${name}: since ${proposed.since} ${proposed.source} lists ${proposed.urls.join(", ")}` +
            (urls.length === 0 ? "" : `; used is ${urls.join(", ")}`),
        ]),
    ...mended.map(({ from, to }) => `${name}: ${from} is meant to be ${to}`),
    ...(problem === undefined ? [] : [`${name}: ${problem}`]),
  ];
}
