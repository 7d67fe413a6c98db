import type { DiscoveryAnswer, ExplainAnswer, ReplicasAnswer, StatusAnswer } from "../operations/answers.ts";
import { describeEntry, describeOutlook } from "../words/explanation.ts";
import { sayCount, sayDuration, saySize } from "../words/quantity.ts";
import { sayReached } from "../words/reached.ts";
import { EXIT, UsageError } from "./command-line.ts";
import { doneLines, nodeLines, statusLines, upstreamLines } from "./gateway-status.ts";
import { askGateway, OperationsError, type OperationsFlags } from "./operations-client.ts";
import { printLine, tableLines, wrap } from "./terminal.ts";

interface PurgeFlags extends OperationsFlags {
  readonly all?: unknown;
  readonly endpoint?: unknown;
  readonly instrument?: unknown;
  readonly contract?: unknown;
  readonly soft?: unknown;
}

interface ActionFlags extends OperationsFlags {
  readonly for?: unknown;
  readonly reason?: unknown;
  readonly weight?: unknown;
  readonly force?: unknown;
}

type Values = Readonly<Record<string, unknown>>;

/** `status`: how a running gateway is. */
export function status(flags: OperationsFlags): Promise<number> {
  return showStatus(flags, statusLines);
}

/** `nodes`: lists them, or changes how one is used. */
export function nodes(flags: ActionFlags, words: readonly string[]): Promise<number> {
  const [verb, upstream, node, url] = words;
  if (words.length < 2) {
    refuseOptions(flags, ["for", "reason", "weight", "force"], "nodes cordon and nodes activate");
    return showStatus(flags, (answer) => nodeLines(only(answer, verb)));
  }
  const state = verb === "cordon" ? "cordoned" : verb === "activate" ? "active" : undefined;
  if (state === undefined || upstream === undefined || node === undefined) {
    throw new UsageError(
      "nodes takes nothing, an upstream, cordon UPSTREAM NODE [URL], or activate UPSTREAM NODE [URL]",
    );
  }
  if (!/^[0-9]{1,4}$/.test(node)) throw new UsageError("NODE is the place of a node in urls: 0 for the first");
  const weight = flags.weight === undefined ? {} : { weight: parseWeight(flags.weight) };
  const body = {
    upstream,
    node: Number(node),
    ...(url !== undefined && { url }),
    state,
    ...weight,
    ...pick(flags, ["for", "reason", "force"]),
  };
  return askGateway(flags, { what: "POST nodes", body }, doneLines);
}

/** `upstreams`: lists them, or says whether one may be asked. */
export function upstreams(flags: ActionFlags, words: readonly string[]): Promise<number> {
  const [mode, upstream] = words;
  if (words.length < 2) {
    refuseOptions(flags, ["for", "reason"], "upstreams cache-only and upstreams normal");
    return showStatus(flags, (answer) => upstreamLines(only(answer, mode)));
  }
  if (mode !== "cache-only" && mode !== "normal") {
    throw new UsageError("upstreams takes nothing, an upstream, cache-only UPSTREAM, or normal UPSTREAM");
  }
  const body = { upstream, mode, ...pick(flags, ["for", "reason"]) };
  return askGateway(flags, { what: "POST upstreams", body }, doneLines);
}

/** `purge`: takes what is named out of the cache, and says on which replicas. */
export async function purge(flags: PurgeFlags, words: readonly string[]): Promise<number> {
  const [upstream, ...more] = words;
  if (flags.all !== true) {
    if (upstream === undefined || more.length > 0) throw new UsageError("purge takes an upstream, or --all [URL …]");
    return purgeOne(flags, upstream);
  }
  refuseOptions(flags, ["endpoint", "instrument", "contract"], "an upstream");
  if (upstream === undefined) return purgeOne(flags, undefined);
  if (flags.url !== undefined || words.some((word) => !URL.canParse(word))) {
    throw new UsageError("purge --all takes URLs of operations listeners, or one by --url");
  }
  let worst: number = EXIT.ok;
  for (const url of words) {
    if (flags.json !== true) printLine(url);
    worst = Math.max(worst, await purgeOne({ ...flags, url }, undefined));
  }
  return worst;
}

/** @param upstream undefined: everything */
function purgeOne(flags: PurgeFlags, upstream: string | undefined): Promise<number> {
  const { instrument, contract } = flags;
  const { endpoint = instrument === undefined ? undefined : "instrument" } = flags;
  const body = { upstream, endpoint, instrument, contract, ...pick(flags, ["soft"]) };
  return askGateway(flags, { what: "POST purge", body }, ({ replicas }) => {
    const named = [upstream ?? "everything", endpoint, instrument, contract];
    const what = named.filter((part) => typeof part === "string").join(", ");
    return [`${flags.soft === true ? "made stale" : "purged"}: ${what}; ${sayReached(replicas)}`];
  });
}

function showStatus(flags: OperationsFlags, linesOf: (answer: StatusAnswer) => string[]): Promise<number> {
  return askGateway(flags, { what: "GET status" }, linesOf);
}

/** The upstreams to show: all, or the one that is named. */
function only({ upstreams: all }: StatusAnswer, name: string | undefined): StatusAnswer["upstreams"] {
  if (name === undefined) return all;
  const named = all.filter((upstream) => upstream.name === name);
  if (named.length === 0) throw new OperationsError(`the gateway has no upstream ${JSON.stringify(name)}`);
  return named;
}

function parseWeight(value: unknown): number {
  const weight = typeof value === "string" && /^[0-9]{1,3}$/.test(value) ? Number(value) : Number.NaN;
  if (!(weight <= 100)) throw new UsageError("--weight takes a whole number from 0 to 100");
  return weight;
}

/** Those of the options that are given. */
function pick(flags: object, names: readonly string[]): Values {
  return Object.fromEntries(
    names.map((name) => [name, (flags as Values)[name]]).filter(([, value]) => value !== undefined),
  );
}

function refuseOptions(flags: object, names: readonly string[], goesWith: string): void {
  const given = names.find((name) => (flags as Values)[name] !== undefined);
  if (given !== undefined) throw new UsageError(`--${given} goes with ${goesWith}`);
}

/** `explain URL`: says what a running gateway has of a URL of its public listener, and would do with a request. */
export function explain(url: string, flags: OperationsFlags): Promise<number> {
  // A fragment never reaches a server.
  const path = url.replace(/^https?:\/\/[^/?#]*/i, "").replace(/#.*$/s, "");
  if (!path.startsWith("/")) throw new UsageError("explain takes a URL or a path of the gateway");
  return askGateway(flags, { what: "GET explain", query: { path } }, (answer) =>
    explanationLines(answer).flatMap((line) => wrap(line)),
  );
}

function explanationLines({ upstream, admin, operation, tiers, reason, explanation }: ExplainAnswer): string[] {
  const lines =
    explanation === undefined
      ? [`Never answered from the cache: ${reason ?? "no reason given"}.`]
      : [
          ...describeOutlook(explanation),
          ...explanation.entries.flatMap((entry, i) => ["", ...describeEntry(entry, i + 1)]),
        ];
  return [
    `registry: ${upstream}${admin === undefined ? "" : `, admin ${admin}`}`,
    `operation: ${operation}`,
    ...(tiers === undefined ? [] : [`clients of these tiers may ask: ${tiers.join(", ") || "none"}`]),
    "",
    ...lines,
  ];
}

/** `replicas`: those at the same Redis, and in what they differ. */
export function replicas(flags: OperationsFlags): Promise<number> {
  return askGateway(flags, { what: "GET replicas" }, replicaLines);
}

function replicaLines({ replicas: all, unknown, differences }: ReplicasAnswer): string[] {
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

/** `discovery`: what a running gateway has found, or decides about what waits. */
export function discovery(flags: OperationsFlags, words: readonly string[]): Promise<number> {
  const [verb, admin, ...urls] = words;
  if (verb === undefined) return askGateway(flags, { what: "GET discovery" }, discoveryLines);
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

function discoveryLines({ sources, registries, pinFileError }: DiscoveryAnswer): string[] {
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
