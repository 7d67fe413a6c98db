import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import { version } from "../version.ts";
import { EXIT, USAGE, UsageError } from "./command-line.ts";
import { printLine } from "./terminal.ts";

interface Command {
  readonly options: ParseArgsOptionsConfig;
  /** How many arguments it takes besides options. */
  readonly positionals: number;
  /** Loads and runs it: a command pays for its own modules only. */
  run(values: Record<string, unknown>, positionals: readonly string[]): Promise<number>;
}

const text = { type: "string" } as const;
const texts = { type: "string", multiple: true } as const;
const flag = { type: "boolean" } as const;

const COMMANDS: Readonly<Record<string, Command>> = {
  start: {
    options: { config: text, upstream: texts, redis: text, port: text },
    positionals: 0,
    run: async (values) => (await import("./start.ts")).start(values),
  },
  check: {
    options: { config: text, live: flag, print: flag, diff: text },
    positionals: 0,
    run: async (values) => (await import("./check.ts")).check(values),
  },
  demo: {
    options: { port: text, "operations-port": text },
    positionals: 0,
    run: async (values) =>
      (await import("./demo.ts")).demo({ port: values.port, operationsPort: values["operations-port"] }),
  },
  sandbox: {
    options: {
      admin: text,
      host: text,
      port: text,
      instruments: text,
      paging: text,
      latency: text,
      style: text,
      versions: text,
      "unknown-paths": text,
      fault: texts,
    },
    positionals: 0,
    run: async (values) => (await import("./sandbox.ts")).sandbox(values),
  },
  explain: {
    options: { operations: text, "token-file": text },
    positionals: 1,
    run: async (values, [url]) =>
      (await import("./explain.ts")).explain(url!, {
        operations: values.operations,
        tokenFile: values["token-file"],
      }),
  },
  clients: {
    options: { tier: text, expires: text, config: text },
    positionals: 2,
    run: async (values, [action, subject]) => (await import("./clients.ts")).clients(action!, subject!, values),
  },
  import: {
    options: { verify: flag, "allow-private": flag, network: text },
    positionals: 1,
    run: async (values, [file]) => (await import("./import.ts")).importAssetList(file!, values),
  },
};

/**
 * Runs the program with its command line.
 *
 * @returns the exit code
 */
export async function run(args: readonly string[]): Promise<number> {
  // Whoever reads the output may stop reading: `registry-gateway check --print | head`.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? EXIT.ok : EXIT.failure);
  });
  const [first = "start"] = args;
  const isNamed = !first.startsWith("-") && args.length > 0;
  const command = COMMANDS[isNamed ? first : "start"];
  try {
    if (args.some((arg) => arg === "--help" || arg === "-h")) {
      process.stdout.write(USAGE);
      return EXIT.ok;
    }
    if (first === "--version") {
      process.stdout.write(`${version}\n`);
      return EXIT.ok;
    }
    if (command === undefined) throw new UsageError(`there is no command ${first}`);
    const { values, positionals } = parseCommandLine(command, isNamed ? args.slice(1) : args);
    return await command.run(values, positionals);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    printLine(`registry-gateway: ${error.message}`, process.stderr);
    printLine("Try registry-gateway --help", process.stderr);
    return EXIT.failure;
  }
}

function parseCommandLine(command: Command, args: readonly string[]) {
  try {
    const parsed = parseArgs({ args: [...args], options: command.options, allowPositionals: true });
    if (parsed.positionals.length !== command.positionals) {
      throw new UsageError(`expected ${command.positionals} argument(s), got ${parsed.positionals.length}`);
    }
    return parsed;
  } catch (error) {
    throw error instanceof UsageError ? error : new UsageError((error as Error).message);
  }
}
