import { diffConfig } from "../config/diff.ts";
import { loadConfig } from "../config/parse.ts";
import { printConfig } from "../config/print.ts";
import { ConfigError } from "../config/problem.ts";
import type { Config } from "../config/schema.ts";
import { warnings, warnOfUnpinned } from "../config/warnings.ts";
import { EXIT, configFileOf } from "./command-line.ts";
import { printLine, printLines } from "./terminal.ts";

interface CheckOptions {
  readonly config?: unknown;
  readonly live?: unknown;
  readonly print?: unknown;
  readonly diff?: unknown;
}

const HOW_TO_CHANGE =
  "To change it under a running gateway, write a file beside it and rename that over it: one that is written in place may be read by half.";

/** `check`: says everything that is wrong with a config file, or that it is good. */
export async function check(options: CheckOptions): Promise<number> {
  const file = configFileOf(options.config);
  try {
    const config = loadConfig(file, process.env);
    if (typeof options.diff === "string") printDiff(loadConfig(options.diff, process.env), config);
    if (options.print === true) printLines(printConfig(config));
    for (const warning of [...warnings(config), ...warnOfUnpinned(config)]) printLine(`warning: ${warning}`);
    const isGood = options.live !== true || (await isLive(config));
    printLine(isGood ? `${file} is good` : `${file} is valid, but not everything it names is well`);
    printLine(HOW_TO_CHANGE);
    return isGood ? EXIT.ok : EXIT.badConfig;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    printLines(error.message, process.stderr);
    return EXIT.badConfig;
  }
}

/** Loads what calls registries and Redis only where they are called: it is half of what a command loads. */
async function isLive(config: Config): Promise<boolean> {
  const { checkLive } = await import("./check-live.ts");
  return checkLive(config, printLine);
}

function printDiff(before: Config, after: Config): void {
  const changes = diffConfig(before, after);
  if (changes.length === 0) printLine("no difference");
  for (const { path, before: old, after: now, effect } of changes) {
    const values = `${JSON.stringify(old) ?? "absent"} → ${JSON.stringify(now) ?? "absent"}`;
    printLine(`${effect === "restart" ? "needs a restart" : "at reload"}: ${path}: ${values}`);
  }
}
