import { readTextFile } from "../config/text-file.ts";
import { parse } from "yaml";
import { DAY, systemClock } from "../clock.ts";
import { sayCount } from "../words/quantity.ts";
import { createKey, digestOfKey } from "../clients/api-key.ts";
import { notations } from "../config/notations.ts";
import { type ClientKey, checkKeysFile, parseKeys } from "../config/keys-file.ts";
import { parseConfigFile } from "../config/parse.ts";
import { ConfigError } from "../config/problem.ts";
import { EXIT, UsageError } from "./command-line.ts";
import { printLine, printLines } from "./terminal.ts";

interface ClientsOptions {
  readonly tier?: unknown;
  readonly expires?: unknown;
  readonly config?: unknown;
}

/** `clients`: makes an API key, says what is wrong with a keys file, or prints one of the form before 0.2 in today's. */
export function clients(action: string, subject: string, options: ClientsOptions): number {
  const { tier, expires, config } = options;
  if (action === "new") {
    if (config !== undefined) throw new UsageError("--config goes with clients check");
    return printNewKey(subject, tier, expires);
  }
  if (action !== "check" && action !== "convert") {
    throw new UsageError(`there is no command clients ${action}: take new, check or convert`);
  }
  if (tier !== undefined || expires !== undefined) throw new UsageError("--tier and --expires go with clients new");
  if (action === "convert") return convertKeys(subject);
  return checkKeys(subject, config);
}

function printNewKey(name: string, tier: unknown = "anonymous", expires?: unknown): number {
  const key = createKey();
  const end = typeof expires === "string" ? { expires: endOf(expires) } : {};
  const entry = JSON.stringify({ name, tier, digest: digestOfKey(key), ...end });
  const [problem] = parseKeys(entry).problems;
  if (problem !== undefined) throw new UsageError(`${problem.path}: ${problem.message}`);
  printLine("The API key, shown this once. Give it to the client; it is stored nowhere:");
  printLine("");
  printLine(`  ${key}`);
  printLine("");
  printLine("The line to append to clients.keysFile, which holds nothing but its digest:");
  printLine("");
  printLine(entry);
  return EXIT.ok;
}

const clock = systemClock();

/** The end of a validity (`90d`, `12h`) that begins now, or a point in time, as the keys file has it. */
function endOf(text: string): string {
  const { time, duration } = notations;
  if (time.findFault(text) === undefined) {
    if (time.parse(text) <= clock.wallNow()) throw new UsageError("--expires is in the past");
    return time.format(time.parse(text));
  }
  const days = /^[0-9]{1,5}d$/.test(text) ? Number(text.slice(0, -1)) * DAY : undefined;
  const length = days ?? (duration.findFault(text) === undefined ? duration.parse(text) : 0);
  if (length === 0) {
    throw new UsageError(
      "--expires takes how long the key is good, such as 90d or 12h, or until when, such as 2027-01-31T00:00:00Z",
    );
  }
  // The file has whole seconds.
  return time.format(Math.ceil((clock.wallNow() + length) / 1000) * 1000);
}

/** Prints the list of a YAML file as one JSON object a line; what is wrong with it, `clients check` says. */
function convertKeys(file: string): number {
  let list: unknown;
  try {
    list = parse(readTextFile(file));
  } catch (error) {
    throw new UsageError(`${file} cannot be read as YAML: ${(error as Error).message.split("\n", 1)[0]}`);
  }
  if (!Array.isArray(list)) throw new UsageError(`${file} is not a list of keys`);
  for (const entry of list) printLine(JSON.stringify(entry));
  return EXIT.ok;
}

function checkKeys(file: string, configFile: unknown): number {
  try {
    const { keys, problems } = checkKeysFile(file, tiersIn(configFile));
    if (problems.length > 0) throw new ConfigError(file, problems);
    const names = new Set(keys.map(({ name }) => name));
    printLine(`${file} is good: ${sayCount(keys.length, "key")} of ${sayCount(names.size, "client")}`);
    for (const key of keys) if (isOver(key)) printLine(`warning: a key of ${key.name} has expired: take it out`);
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    printLines(error.message, process.stderr);
    return EXIT.badConfig;
  }
}

/** The tiers of a configuration, whose own keys file may be another one. */
function tiersIn(file: unknown): readonly string[] | undefined {
  if (typeof file !== "string") return undefined;
  const { usable, problems } = parseConfigFile(file, process.env);
  if (usable === undefined) throw new ConfigError(file, problems);
  return Object.keys(usable.clients?.tiers ?? {});
}

function isOver({ expires = Infinity }: ClientKey): boolean {
  return expires <= clock.wallNow();
}
