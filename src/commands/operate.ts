import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { EXIT, UsageError } from "./command-line.ts";
import {
  doneLines,
  type GatewayStatus,
  healthLines,
  inForceLines,
  nodeLines,
  readStatus,
  Replicas,
  sayScope,
  upstreamLines,
} from "./gateway-status.ts";
import { askGateway, OperationsError, type OperationsFlags } from "./operations-client.ts";
import { saySize } from "../words/quantity.ts";
import { printLine } from "./terminal.ts";

interface PurgeFlags extends OperationsFlags {
  readonly all?: unknown;
  readonly endpoint?: unknown;
  readonly instrument?: unknown;
  readonly soft?: unknown;
}

interface ActionFlags extends OperationsFlags {
  readonly for?: unknown;
  readonly reason?: unknown;
  readonly weight?: unknown;
  readonly force?: unknown;
}

const purgeCheck = Compile(Type.Object({ purged: Type.Unknown(), scope: Type.String(), replicas: Replicas }));

type Values = Readonly<Record<string, unknown>>;

/** `status`: how a running gateway is. */
export function status(flags: OperationsFlags): Promise<number> {
  return showStatus(flags, (answer) => [
    ...healthLines(answer),
    "",
    ...partLines(answer),
    "",
    ...upstreamLines(answer.upstreams),
    ...(answer.inForce === undefined || answer.inForce.length === 0
      ? []
      : ["", "In force, by operators:", ...inForceLines(answer.inForce)]),
  ]);
}

function partLines({ cache: { memory }, redis }: GatewayStatus): string[] {
  const share = memory.maxBytes === 0 ? 0 : Math.round((memory.bytes / memory.maxBytes) * 100);
  const lines = [
    `memory   ${memory.entries} entries, ${saySize(memory.bytes)} of ${saySize(memory.maxBytes)} (${share} %)`,
  ];
  if (!redis.configured) lines.push("redis    not configured");
  else {
    const pending = redis.pendingPurges ?? 0;
    const parts = [
      redis.state === "away" ? "away: each replica goes on by itself" : (redis.state ?? "unknown"),
      ...(redis.state === "up" ? [`${redis.replicas ?? "?"} replicas`] : []),
      ...(redis.lastError === undefined || redis.lastError === null ? [] : [redis.lastError]),
      ...(pending === 0 ? [] : [`${pending} purges wait to be written`]),
    ];
    lines.push(`redis    ${parts.join(", ")}`);
  }
  return lines;
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
  return act(flags, "nodes", {
    upstream,
    node: Number(node),
    state,
    ...weight,
    ...pick(flags, ["for", "reason", "force"]),
  });
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
  return act(flags, "upstreams", { upstream, mode, ...pick(flags, ["for", "reason"]) });
}

/** `purge`: takes what is named out of the cache, and says on which replicas. */
export async function purge(flags: PurgeFlags, words: readonly string[]): Promise<number> {
  const [upstream, ...more] = words;
  if (flags.all !== true) {
    if (upstream === undefined || more.length > 0) throw new UsageError("purge takes an upstream, or --all [URL …]");
    return purgeOne(flags, upstream);
  }
  refuseOptions(flags, ["endpoint", "instrument"], "an upstream");
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
  const { instrument } = flags;
  const { endpoint = instrument === undefined ? undefined : "instrument" } = flags;
  const body = { upstream, endpoint, instrument, ...pick(flags, ["soft"]) };
  return askGateway(flags, { path: "purge", body }, (answer) => {
    if (!purgeCheck.Check(answer)) return false;
    const what = [upstream ?? "everything", endpoint, instrument].filter((part) => typeof part === "string").join(", ");
    printLine(`${flags.soft === true ? "made stale" : "purged"}: ${what}; ${sayScope(answer)}`);
    return true;
  });
}

function act(flags: OperationsFlags, path: string, body: object): Promise<number> {
  return askGateway(flags, { path, body }, (answer) => printAll(doneLines(answer)));
}

function showStatus(flags: OperationsFlags, linesOf: (answer: GatewayStatus) => string[]): Promise<number> {
  return askGateway(flags, { path: "status" }, (answer) => {
    const read = readStatus(answer);
    return printAll(read === undefined ? undefined : linesOf(read));
  });
}

function printAll(lines: readonly string[] | undefined): boolean {
  for (const line of lines ?? []) printLine(line);
  return lines !== undefined;
}

/** The upstreams to show: all, or the one that is named. */
function only({ upstreams: all }: GatewayStatus, name: string | undefined): GatewayStatus["upstreams"] {
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
