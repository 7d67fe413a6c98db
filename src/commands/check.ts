import { stringify } from "yaml";
import { changesOf, effectiveConfig } from "../config/effective.ts";
import { loadConfig } from "../config/load.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import type { Config } from "../config/schema.ts";
import { keepUntilRestart } from "../gateway/restart-keys.ts";
import { certificateEnds } from "../observe/certificates.ts";
import { sayEnd } from "./certificates.ts";
import { configFileOf } from "./config-file.ts";
import { complain, EXIT, print } from "./terminal.ts";

interface CheckOptions {
  readonly config?: string;
  readonly live?: true;
  readonly print?: true;
  readonly diff?: string;
}

/** `check`: says whether a configuration is good. @throws ConfigError with everything that is wrong with it */
export async function check(options: CheckOptions): Promise<number> {
  const file = configFileOf(options.config);
  const loaded = loadConfig({ file }, process.env);
  if (options.diff !== undefined) {
    const old = loadConfig({ file: options.diff }, process.env);
    const changes = changesOf(old, loaded);
    for (const { path, before, after } of changes) print(`${path}: ${show(before)} → ${show(after)}`);
    if (changes.length === 0) print("no difference");
    const { waiting } = keepUntilRestart(loaded, old);
    if (waiting.length > 0) print(`at the next start alone: ${waiting.join(", ")}`);
  }
  if (options.print === true) print(stringify(effectiveConfig(loaded.config), { lineWidth: 0 }).trimEnd());
  for (const warning of [...loaded.warnings, ...warningsOfEnds(loaded)]) complain(`warning: ${warning}`);
  const isWell = options.live !== true || (await isLive(loaded));
  // What is printed for others to read stays by itself.
  const say = options.print === true || options.diff !== undefined ? complain : print;
  say(memoryOf(loaded.config));
  say(isWell ? `${file} is good` : `${file} is valid, but not everything that it names is well`);
  return isWell ? EXIT.ok : EXIT.badConfig;
}

/** Loads what asks registries and Redis only here: it is half of what a command loads. */
async function isLive(loaded: LoadedConfig): Promise<boolean> {
  const { checkLive } = await import("./check-live.ts");
  return checkLive(loaded);
}

/** Warnings of certificates that have ended or end soon; for an ended one of the listener, the configuration has its own. */
function warningsOfEnds(loaded: LoadedConfig): string[] {
  return certificateEnds(loaded).flatMap(({ role, peer, endsAt }) => {
    const { severity, text } = sayEnd(endsAt);
    const isSaid = role === "listener" && severity === "error";
    return severity === "good" || isSaid ? [] : [`${role} certificate for ${peer}: ${text}`];
  });
}

function show(value: unknown): string {
  return value === undefined ? "default" : JSON.stringify(value);
}

const MIB = 2 ** 20;

/** Bytes of a connection with the largest head in it, as measured with Node 24. */
const CONNECTION = { plain: MIB * (36 / 1_024), tls: MIB * (80 / 1_024) };
/** Bodies of requests and answers on their way, in all (`bodies/collect.ts`). */
const BODIES = 64 * MIB;
/** A process under load, before anything is cached. */
const PROCESS = 220 * MIB;

/** The sum of what a process may come to take. */
function memoryOf({ cache, listen }: Config): string {
  const connections = listen.maxConnections * (listen.tls === undefined ? CONNECTION.plain : CONNECTION.tls);
  const parts = { process: PROCESS, "cache.memory": cache.memory, connections, bodies: BODIES };
  const sum = Object.values(parts).reduce((one, other) => one + other, 0);
  const said = Object.entries(parts).map(([name, bytes]) => `${name} ${Math.ceil(bytes / MIB)}`);
  return `memory: ${Math.ceil(sum / MIB)} MiB at most (${said.join(" + ")})`;
}
