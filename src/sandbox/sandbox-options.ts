import { readFileSync } from "node:fs";
import { type Clock, type Duration, systemClock } from "../clock.ts";
import { OPERATIONS } from "../spec/operations.ts";
import { parseDuration } from "../units.ts";
import { ERROR_STYLES } from "./answer.ts";
import { type CallFault, FAULT_NAMES, faultNamed, type FaultScope } from "./faults.ts";
import { type Instrument, VERSIONS } from "./instrument.ts";
import { type Lie, LIES } from "./lies.ts";
import { PAGE_STYLES } from "./paging.ts";
import { mulberry32 } from "./random.ts";
import { type AnswerOptions, UNKNOWN_PATHS } from "./registry-answers.ts";
import type { SampleRegistryOptions } from "./registry.ts";

/** A sandbox; each option has the same meaning on the command line. */
export interface SandboxOptions extends Partial<
  Pick<AnswerOptions, "paging" | "strict" | "style" | "unknownPaths" | "version">
> {
  /** The party id that its info names; by default `sandbox::1220…`. All generated data depends on it. */
  readonly admin?: string;
  /** Address to listen on; by default 127.0.0.1. */
  readonly host?: string;
  /** By default 0: any free port. */
  readonly port?: number;
  /** How many are generated, 60 by default; or which; or the path of a JSON file with an array of them. */
  readonly instruments?: number | string | readonly Instrument[];
  /** Contract ids that it knows: all others are 404. By default it knows every id. */
  readonly contracts?: readonly string[];
  /** Faults in force from the start: `503`, `429:0.1` (a tenth of the calls), `hang*3` (the first three), `503@info`. */
  readonly faults?: readonly string[];
  /** How long each answer takes: milliseconds, or a text such as `400ms`. */
  readonly latency?: number | string;
  /** How many nodes of the registry run, 1 by default; all on free ports, or from `port` on. */
  readonly nodes?: number | string;
  /** Which of them lie, the last: `always`, `blob:3` (three of them). All others are honest and say the same. */
  readonly lies?: readonly string[];
  /** How often a new round opens, at one node after the other: milliseconds, or a text such as `10s`. */
  readonly rollOver?: number | string;
}

/** An option of a sandbox that cannot be understood; `message` names it and says what it takes. */
export class SandboxOptionError extends Error {
  override readonly name = "SandboxOptionError";
  readonly option: keyof SandboxOptions;
  /** What follows the option's name in a sentence. */
  readonly problem: string;

  constructor(option: keyof SandboxOptions, problem: string) {
    super(`${option} ${problem}`);
    this.option = option;
    this.problem = problem;
  }
}

const SANDBOX_ADMIN = `sandbox::1220${"13f1b3a8".repeat(8)}`;
const MAX_INSTRUMENTS = 100_000;
const MAX_NODES = 50;
const LARGEST_PORT = 65_535;
/** How long nodes differ when a round opens, from the first node to the last. */
const ROLL_OVER_SPREAD: Duration = 200;
/** How long a slow liar takes. */
const SLOW: Duration = 2_000;
/** Instruments on a page of a node that cuts pages in its own way. */
const CUT = 10;

/** What all nodes have in common. */
function registryOptions(options: SandboxOptions): SampleRegistryOptions {
  const { admin = SANDBOX_ADMIN, host = "127.0.0.1", port = 0, contracts, strict = false } = options;
  const known = contracts && new Set(contracts);
  return {
    admin,
    clock: systemClock(),
    host,
    port,
    instruments: readInstruments(options.instruments ?? 60),
    strict,
    latency: readDuration("latency", options.latency ?? 0, "400ms or 2s"),
    paging: choose("paging", options, PAGE_STYLES),
    style: choose("style", options, ERROR_STYLES),
    version: choose("version", options, VERSIONS),
    unknownPaths: choose("unknownPaths", options, UNKNOWN_PATHS),
    contracts: (id) => known?.has(id) ?? true,
    etags: true,
    givesFaults: true,
    isControlled: true,
    allowsBrowsers: true,
  };
}

/** A node of a sandbox: a registry, and in what it differs from the honest nodes of it. */
export interface NodeOptions {
  readonly lie: Lie | undefined;
  readonly registry: SampleRegistryOptions;
}

/**
 * The nodes that these options describe.
 *
 * @throws SandboxOptionError
 */
export function nodeOptions(options: SandboxOptions): readonly NodeOptions[] {
  const registry = registryOptions(options);
  const count = readNodes(options.nodes ?? 1);
  const lies = (options.lies ?? []).flatMap(readLie);
  const { port = 0 } = registry;
  if (port + count - 1 > LARGEST_PORT) {
    throw new SandboxOptionError("port", `takes ${LARGEST_PORT - count + 1} at most: each node has the next port`);
  }
  if (lies.length > count) throw new SandboxOptionError("lies", `names ${lies.length} nodes, and there are ${count}`);
  const rounds = roundsOf(registry.clock, options.rollOver);
  return Array.from({ length: count }, (_, place) => {
    const lie = lies[place - count + lies.length];
    const liar = lie && { lie, name: `node ${place}`, random: mulberry32(place) };
    const round = rounds((place / Math.max(1, count - 1)) * ROLL_OVER_SPREAD);
    const { latency } = registry;
    const node: SampleRegistryOptions = {
      ...registry,
      port: port === 0 ? 0 : port + place,
      // Where nothing rolls over, it is still in the round before the first.
      round: lie === "late" ? () => round() - 1 : round,
      liar,
      ...(lie === "slow" ? { latency: SLOW + (latency as Duration) } : {}),
      ...(lie === "cuts" ? { defaultPageSize: CUT, maxPageSize: { limit: CUT, beyond: "clamp" } } : {}),
    };
    return { lie, registry: node };
  });
}

/** By how much later a node takes part: the number of the round that is open at it. */
function roundsOf(clock: Clock, rollOver: number | string | undefined) {
  if (rollOver === undefined) return () => () => 0;
  const every = readDuration("rollOver", rollOver, "10s or 1m");
  if (every < 2 * ROLL_OVER_SPREAD)
    throw new SandboxOptionError("rollOver", `takes ${2 * ROLL_OVER_SPREAD}ms at least`);
  const begin = clock.now();
  return (later: Duration) => () => Math.max(0, Math.floor((clock.now() - begin - later) / every));
}

function readNodes(value: number | string): number {
  const count = /^[0-9]{1,3}$/.test(String(value)) ? Number(value) : 0;
  if (count >= 1 && count <= MAX_NODES) return count;
  throw new SandboxOptionError("nodes", `takes a number from 1 to ${MAX_NODES}`);
}

/** `blob:3` for each of three nodes. */
function readLie(text: string): readonly Lie[] {
  const [, name, count = "1"] = /^([a-z]+)(?::([1-9][0-9]?))?$/.exec(text) ?? [];
  const lie = LIES.find((each) => each === name);
  if (lie === undefined) {
    throw new SandboxOptionError("lies", `takes one of ${LIES.join(", ")}, and for how many nodes: blob:3`);
  }
  return Array.from({ length: Number(count) }, () => lie);
}

/** @throws SandboxOptionError */
export function readFaults(texts: readonly string[]): (CallFault & FaultScope)[] {
  return texts.map(readFault);
}

function readInstruments(value: number | string | readonly Instrument[]): number | readonly Instrument[] {
  if (typeof value === "number" || (typeof value === "string" && /^[0-9]+$/.test(value))) {
    const count = Number(value);
    if (Number.isInteger(count) && count >= 0 && count <= MAX_INSTRUMENTS) return count;
    throw new SandboxOptionError(
      "instruments",
      `takes a number up to ${MAX_INSTRUMENTS}, or a JSON file with an array`,
    );
  }
  const list = typeof value === "string" ? readInstrumentsFile(value) : value;
  const wrong = list.findIndex((each) => !isInstrument(each));
  if (wrong === -1 && new Set(list.map(({ id }) => id)).size === list.length) return list;
  throw new SandboxOptionError(
    "instruments",
    wrong === -1
      ? "names one id twice"
      : `has an entry, number ${wrong}, without all of the strings id, name and symbol, the number decimals and the object supportedApis`,
  );
}

function readInstrumentsFile(path: string): readonly Instrument[] {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new SandboxOptionError("instruments", `cannot be read from ${path}: ${(error as Error).message}`);
  }
  // Either the array, or a page of a registry as it is.
  const list = Array.isArray(content) ? content : (content as { instruments?: unknown } | null)?.instruments;
  if (!Array.isArray(list)) throw new SandboxOptionError("instruments", `finds no array in ${path}`);
  return list as readonly Instrument[];
}

function isInstrument(value: unknown): value is Instrument {
  const { id, name, symbol, decimals, supportedApis } = (value ?? {}) as Partial<Record<keyof Instrument, unknown>>;
  const texts = [id, name, symbol].every((each) => typeof each === "string");
  return texts && Number.isInteger(decimals) && typeof supportedApis === "object" && supportedApis !== null;
}

function readDuration(option: "latency" | "rollOver", value: number | string, examples: string): Duration {
  const duration = typeof value === "string" ? parseDuration(value) : value;
  if (duration !== undefined && duration >= 0 && Number.isFinite(duration)) return duration;
  throw new SandboxOptionError(option, `takes a duration such as ${examples}`);
}

/** One of `choices`; the first where the option is not given. */
function choose<Choice extends string>(
  option: keyof SandboxOptions,
  options: SandboxOptions,
  choices: readonly Choice[],
): Choice {
  const choice = choices.find((each) => each === (options[option] ?? choices[0]));
  if (choice === undefined) throw new SandboxOptionError(option, `takes ${choices.join(" or ")}`);
  return choice;
}

const FAULT = /^([a-z0-9-]+)(?::([0-9.]{1,10}))?(?:\*([1-9][0-9]{0,5}))?(?:@([a-z0-9_]+))?$/;

/** `429:0.1` is for a tenth of the calls, `hang` for all, `503*3` for the first three, `503@info` for one endpoint. */
function readFault(text: string): CallFault & FaultScope {
  const [, name = "", share = "1", times, only] = FAULT.exec(text) ?? [];
  const fault = faultNamed(name);
  const rate = Number(share);
  if (fault === undefined || !(rate > 0 && rate <= 1)) {
    throw new SandboxOptionError(
      "faults",
      `takes a status from 400 to 599 or one of ${FAULT_NAMES.join(", ")}, a share, a number of times and an endpoint: 429:0.1*3@info`,
    );
  }
  const scope: FaultScope = { rate, ...(times === undefined ? {} : { times: Number(times) }) };
  if (only === undefined) return { ...fault, ...scope };
  const operation = OPERATIONS.find((each) => each === only);
  if (operation === undefined) {
    throw new SandboxOptionError("faults", `takes one of the endpoints ${OPERATIONS.join(", ")}`);
  }
  return { ...fault, ...scope, operations: [operation] };
}
