import { dirname, resolve } from "node:path";
import { fillDependentDefaults } from "./dependent-defaults.ts";
import type { Draft } from "./dependent-defaults.ts";
import type { Environment } from "./environment.ts";
import { asData } from "./keys.ts";
import { ConfigError } from "./problem.ts";
import type { Problem } from "./problem.ts";
import { Reading } from "./reading.ts";
import { readRoot } from "./read.ts";
import { checkRules } from "./rules.ts";
import { configSchema } from "./schema.ts";
import type { Config } from "./schema.ts";
import { faultOfFile, readTextFile } from "./text-file.ts";

export interface ConfigSource {
  /** YAML. */
  readonly text: string;
  /** Where the text is from: its folder is where relative `…File` keys begin. */
  readonly file: string;
  readonly env: Environment;
}

export interface ParsedConfig {
  /** Absent when there is any problem. */
  readonly config?: Config;
  /**
   * The configuration where nothing is wrong with it but files of which a running gateway has an earlier content: those
   * of `auth` and `tls` of upstreams, of `listen.tls` and of `clients`.
   */
  readonly usable?: Config;
  /** Every problem, in the order of the text. */
  readonly problems: readonly Problem[];
  /** Every file that a key names → its version when it was looked at (see `versionOf`). */
  readonly files: ReadonlyMap<string, string>;
  /** How many keys the text gives. */
  readonly givenCount: number;
}

const WATCHED = /^((upstreams\[\d+\]|discovery\.defaults)\.(auth|tls)|listen\.tls|clients)\./;

function byPlace(a: Problem, b: Problem): number {
  return a.line - b.line || a.column - b.column;
}

/** The configuration in `text`, or everything that is wrong with it. Reads only the files that `…File` keys name. */
export function parseConfig({ text, file, env }: ConfigSource): ParsedConfig {
  const reading = new Reading(text, env, dirname(resolve(file)));
  const { files } = reading;
  const refuse = (): ParsedConfig => ({
    problems: reading.problems.toSorted(byPlace),
    files,
    givenCount: reading.givenCount,
  });
  // Where the syntax is wrong, the tree is a guess: what else it seems to say would mislead.
  if (reading.problems.length > 0) return refuse();
  const read: Draft | undefined = readRoot(reading, asData(configSchema));
  if (read === undefined) return refuse();
  const draft = fillDependentDefaults(read, reading);
  checkRules(reading, draft);
  if (!reading.problems.every(({ isOfFile, path }) => isOfFile === true && WATCHED.test(path))) return refuse();
  // Without other problems, the schema has filled in every key.
  const usable = draft as Config;
  return { ...refuse(), usable, ...(reading.problems.length === 0 ? { config: usable } : {}) };
}

/**
 * What {@link parseConfig} says of a file.
 * @throws {ConfigError} when it cannot be read
 */
export function parseConfigFile(file: string, env: Environment): ParsedConfig {
  let text: string;
  try {
    text = readTextFile(file);
  } catch (error) {
    const fault = faultOfFile(error);
    const message = fault === "is not there" ? "there is no such file" : fault;
    throw new ConfigError(file, [{ line: 0, column: 0, path: "", message }]);
  }
  return parseConfig({ text, file, env });
}

/**
 * The configuration in `file`.
 * @throws {ConfigError} when the file cannot be read, or has any problem.
 */
export function loadConfig(file: string, env: Environment): Config {
  const { config, problems } = parseConfigFile(file, env);
  if (config === undefined) throw new ConfigError(file, problems);
  return config;
}
