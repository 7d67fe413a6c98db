import type { DiscoveryAnswer } from "../operations/answers.ts";
import { sayReached } from "../words/reached.ts";
import { UsageError } from "./command-line.ts";
import { askGateway, type OperationsFlags } from "./operations-client.ts";
import { tableLines, wrap } from "./table.ts";

/** `discovery`: what a running gateway has found, or decides about what waits. */
export function discovery(flags: OperationsFlags, words: readonly string[]): Promise<number> {
  const [verb, admin, ...urls] = words;
  if (verb === undefined) return askGateway(flags, { what: "GET discovery" }, reportLines);
  if ((verb !== "approve" && verb !== "refuse") || admin === undefined) {
    throw new UsageError(
      "discovery takes nothing, approve ADMIN, or refuse ADMIN, with the URLs that you saw proposed",
    );
  }
  const body = { admin, approve: verb === "approve", ...(urls.length > 0 && { urls }) };
  return askGateway(flags, { what: "POST discovery", body }, ({ registry, replicas }) => {
    const places = registry === null || registry.urls.length === 0 ? "" : ` at ${registry.urls.join(", ")}`;
    const now = registry === null ? "taken away" : `${registry.state}${places}`;
    return [`${verb === "approve" ? "approved" : "refused"}: ${admin}: ${now}; ${sayReached(replicas)}`];
  });
}

function reportLines({ sources, registries, pinFileError }: DiscoveryAnswer): string[] {
  if (sources.length === 0) return ["discovery is not configured"];
  return [
    ...tableLines(sources, [
      { head: "SOURCE", cell: ({ name }) => name },
      { head: "FOUND", isNumber: true, cell: ({ found }) => found },
      { head: "READ", cell: ({ lastRun }) => lastRun ?? "never" },
      { head: "ERROR", shortened: "end", cell: ({ lastError }) => lastError ?? "" },
    ]),
    ...(pinFileError === null ? [] : ["", `The pin file ${pinFileError}.`]),
    "",
    ...tableLines(registries, [
      { head: "REGISTRY", cell: ({ name }) => name },
      { head: "STATE", cell: ({ state }) => state },
      { head: "NODES", isNumber: true, cell: ({ urls }) => urls.length },
      { head: "ADMIN", shortened: "middle", cell: ({ admin }) => admin },
    ]),
    ...registries.flatMap(detailsOf).flatMap((line) => wrap(line)),
  ];
}

/** What has to be known of a registry besides its state. */
function detailsOf({ name, urls, proposed, mended = [], problem }: DiscoveryAnswer["registries"][number]): string[] {
  const used = urls.length === 0 ? "" : `; used is ${urls.join(", ")}`;
  return [
    ...(proposed === undefined
      ? []
      : [`${name}: since ${proposed.since} ${proposed.source} lists ${proposed.urls.join(", ")}${used}`]),
    ...mended.map(({ from, to }) => `${name}: ${from} is meant to be ${to}`),
    ...(problem === undefined ? [] : [`${name}: ${problem}`]),
  ];
}
