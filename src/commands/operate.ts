import type { StatusAnswer } from "../operations/answers.ts";
import { sayReached } from "../words/reached.ts";
import { EXIT, UsageError } from "./command-line.ts";
import { doneLines, nodeLines, statusLines, upstreamLines } from "./gateway-status.ts";
import { askGateway, OperationsError, type OperationsFlags } from "./operations-client.ts";
import { printLine } from "./terminal.ts";

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
  const [verb, upstream, node] = words;
  if (words.length < 2) {
    refuseOptions(flags, ["for", "reason", "weight", "force"], "nodes cordon and nodes activate");
    return showStatus(flags, (answer) => nodeLines(only(answer, verb)));
  }
  const state = { cordon: "cordoned", activate: "active" }[verb!];
  if (state === undefined || upstream === undefined || node === undefined) {
    throw new UsageError("nodes takes nothing, an upstream, cordon UPSTREAM NODE, or activate UPSTREAM NODE");
  }
  if (!/^[0-9]{1,4}$/.test(node)) throw new UsageError("NODE is the place of a node in urls: 0 for the first");
  const weight = flags.weight === undefined ? {} : { weight: parseWeight(flags.weight) };
  const body = { upstream, node: Number(node), state, ...weight, ...pick(flags, ["for", "reason", "force"]) };
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
