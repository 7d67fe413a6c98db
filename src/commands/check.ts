import { systemClock } from "../clock.ts";
import { listCertificates, warnOfEnds } from "./check-certificates.ts";
import { type Change, diffConfig } from "../config/diff.ts";
import { loadConfig } from "../config/parse.ts";
import { presentConfig, printConfig } from "../config/print.ts";
import { ConfigError, type Problem } from "../config/problem.ts";
import type { Config } from "../config/schema.ts";
import { warnings, warnOfUnpinned } from "../config/warnings.ts";
import { configFileOf, EXIT } from "./command-line.ts";
import { printLine, printLines } from "./terminal.ts";

interface CheckOptions {
  readonly config?: unknown;
  readonly live?: unknown;
  readonly print?: unknown;
  readonly diff?: unknown;
  readonly json?: unknown;
}

/** What `check --json` prints. What was not asked for is absent, and so is what a bad file leaves open. */
interface CheckReport {
  readonly file: string;
  /** Whether the exit code is 0. */
  readonly good: boolean;
  /** Of `file`, or of the one that `--diff` names. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  readonly memory?: { readonly underLoadMiB: number; readonly limitMiB: number };
  readonly certificates?: readonly { readonly of: string; readonly expiresAt: string }[];
  readonly changes?: readonly Change[];
  /** What each node, and Redis, had to say. */
  readonly live?: readonly string[];
  /** Effective, without secrets. */
  readonly config?: unknown;
}

const HOW_TO_CHANGE =
  "To change it under a running gateway, write a file beside it and rename that over it: one that is written in place may be read by half.";

/** `check`: says everything that is wrong with a config file, or that it is good. */
export async function check(options: CheckOptions): Promise<number> {
  const file = configFileOf(options.config);
  const isJson = options.json === true;
  try {
    const config = loadConfig(file, process.env);
    const changes =
      typeof options.diff === "string" ? diffConfig(loadConfig(options.diff, process.env), config) : undefined;
    const listed = listCertificates(config, systemClock().wallNow());
    const certificates = listed.map(({ of, ends }) => ({ of, expiresAt: new Date(ends).toISOString() }));
    const warned = [...warnings(config), ...warnOfUnpinned(config), ...warnOfEnds(listed)];
    const { underLoad, limit } = estimateMemory(config);
    const memory = { underLoadMiB: inMiB(underLoad), limitMiB: inMiB(limit) };
    if (!isJson) {
      if (changes !== undefined) printDiff(changes);
      if (options.print === true) printLines(printConfig(config));
      printLine(`memory: about ${memory.underLoadMiB} MiB at full load; limit the process to ${memory.limitMiB} MiB`);
      for (const { of, expiresAt } of certificates) printLine(`${of}: ends on ${expiresAt}`);
      for (const warning of warned) printLine(`warning: ${warning}`);
    }
    const live: string[] = [];
    const good = options.live !== true || (await isLive(config, isJson ? (line) => void live.push(line) : printLine));
    if (isJson) {
      printReport({
        file,
        good,
        problems: [],
        warnings: warned,
        memory,
        ...(certificates.length > 0 && { certificates }),
        ...(changes !== undefined && { changes }),
        ...(options.live === true && { live }),
        ...(options.print === true && { config: presentConfig(config) }),
      });
    } else {
      printLine(good ? `${file} is good` : `${file} is valid, but not everything it names is well`);
      printLine(HOW_TO_CHANGE);
    }
    return good ? EXIT.ok : EXIT.badConfig;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    if (isJson) printReport({ file: error.file, good: false, problems: error.problems, warnings: [] });
    else printLines(error.message, process.stderr);
    return EXIT.badConfig;
  }
}

function inMiB(bytes: number): number {
  return Math.ceil(bytes / MIB);
}

/** Loads what calls registries and Redis only where they are called: it is half of what a command loads. */
async function isLive(config: Config, print: (line: string) => void): Promise<boolean> {
  const { checkLive } = await import("./check-live.ts");
  return checkLive(config, print);
}

function printReport(report: CheckReport): void {
  printLines(JSON.stringify(report, undefined, 2));
}

function printDiff(changes: readonly Change[]): void {
  if (changes.length === 0) printLine("no difference");
  for (const { path, before: old, after: now, effect } of changes) {
    const values = `${JSON.stringify(old) ?? "absent"} → ${JSON.stringify(now) ?? "absent"}`;
    printLine(`${effect === "restart" ? "needs a restart" : "at reload"}: ${path}: ${values}`);
  }
}

const MIB = 2 ** 20;

/** What a process takes before anything is cached, and at full load (docs/operations/sizing.md, as measured). */
const BASE = 215 * MIB;
/** Of each byte of `cache.memory.maxBytes`: garbage that is not collected yet, besides. */
const CACHE_SHARE = 1.3;

/** Beyond the base: answers that clients do not read, bodies of calls, rare garbage collections. */
const RESERVE = 280 * MIB;
/**
 * A connection with the largest head, of which the end has not come: with this `limits.uri`, and more with a larger one. What a
 * URL leaves of that may be fields, of which each byte takes more.
 */
const CONNECTION = { plain: 36 * 1024, tls: 80 * 1024, uri: 8 * 1024, ofEachByteMore: 2.5 };

/** Bytes of memory that a process with this configuration takes. */
interface MemoryEstimate {
  /** At full load. */
  readonly underLoad: number;
  /** What the process is to be limited to: with every connection open, and clients that do their worst. */
  readonly limit: number;
}

/** By the formula of docs/operations/sizing.md. */
export function estimateMemory({ cache, listen, limits }: Pick<Config, "cache" | "listen" | "limits">): MemoryEstimate {
  const underLoad = BASE + CACHE_SHARE * cache.memory.maxBytes;
  const connection = listen.tls === undefined ? CONNECTION.plain : CONNECTION.tls;
  const further = CONNECTION.ofEachByteMore * Math.max(0, limits.uri - CONNECTION.uri);
  const connections = listen.maxConnections * (connection + further);
  // Bodies in memory get 64 MiB, answers of registries 256, or four of the largest (see "What clients can make a process keep").
  const bodies = Math.max(0, 4 * limits.requestBody - 64 * MIB);
  const answers = Math.max(256 * MIB, 4 * limits.responseBody);
  return { underLoad, limit: underLoad + RESERVE + connections + bodies + answers };
}
