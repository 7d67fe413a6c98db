import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import { build } from "../version.ts";
import { EXIT, USAGE, UsageError } from "./command-line.ts";
import { printLine } from "./terminal.ts";

interface Command {
  readonly options: ParseArgsOptionsConfig;
  /** How many arguments it takes besides options: this number, or from the first to the second. */
  readonly positionals: number | readonly [least: number, most: number];
  /** Loads and runs it: a command pays for its own modules only. */
  run(values: Record<string, unknown>, positionals: readonly string[]): Promise<number>;
}

const text = { type: "string" } as const;
const texts = { type: "string", multiple: true } as const;
const flag = { type: "boolean" } as const;

/** Where the operations listener is, and how its answers are printed. */
const operations = { config: text, url: text, "token-file": text, json: flag };

const COMMANDS: Readonly<Record<string, Command>> = {
  start: {
    options: { config: text, upstream: texts, redis: text, port: text },
    positionals: 0,
    run: async (values) => (await import("./start.ts")).start(values),
  },
  check: {
    options: { config: text, live: flag, print: flag, diff: text, json: flag },
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
      strict: flag,
      contract: texts,
      fault: texts,
      nodes: text,
      lie: texts,
      "roll-over": text,
    },
    positionals: 0,
    run: async (values) => (await import("./sandbox.ts")).sandbox(values),
  },
  inspect: {
    options: { json: flag },
    positionals: 1,
    run: async (values, words) => (await import("./inspect/inspect.ts")).inspect(values, words),
  },
  status: {
    options: operations,
    positionals: 0,
    run: async (values) => (await import("./operate.ts")).status(values),
  },
  replicas: {
    options: operations,
    positionals: 0,
    run: async (values) => (await import("./operate.ts")).replicas(values),
  },
  audit: {
    options: { ...operations, limit: text, before: text },
    positionals: 0,
    run: async (values) => (await import("./audit.ts")).audit(values),
  },
  purge: {
    options: { ...operations, all: flag, endpoint: text, instrument: text, contract: text, soft: flag },
    positionals: [0, 64],
    run: async (values, words) => (await import("./operate.ts")).purge(values, words),
  },
  nodes: {
    options: { ...operations, weight: text, for: text, reason: text, force: flag },
    positionals: [0, 4],
    run: async (values, words) => (await import("./operate.ts")).nodes(values, words),
  },
  upstreams: {
    options: { ...operations, for: text, reason: text },
    positionals: [0, 2],
    run: async (values, words) => (await import("./operate.ts")).upstreams(values, words),
  },
  discovery: {
    options: operations,
    positionals: [0, 66],
    run: async (values, words) => (await import("./operate.ts")).discovery(values, words),
  },
  explain: {
    options: { ...operations, operations: text },
    positionals: 1,
    run: async ({ operations: named, ...values }, [url]) =>
      (await import("./operate.ts")).explain(url!, { url: named, ...values }),
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
  // The reader of the output may stop: `registry-gateway check --print | head`.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? EXIT.ok : EXIT.failure);
  });
  const [first = "start"] = args;
  const isNamed = !first.startsWith("-") && args.length > 0;
  const name = isNamed ? first : "start";
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  try {
    if (args.some((arg) => arg === "--help" || arg === "-h")) {
      process.stdout.write(USAGE);
      return EXIT.ok;
    }
    if (first === "--version") {
      process.stdout.write(`${build}\n`);
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
    const { positionals } = command;
    const [least, most] = typeof positionals === "number" ? [positionals, positionals] : positionals;
    const given = parsed.positionals.length;
    if (given < least || given > most) {
      throw new UsageError(`expected ${least === most ? least : `${least} to ${most}`} argument(s), got ${given}`);
    }
    return parsed;
  } catch (error) {
    throw error instanceof UsageError ? error : new UsageError((error as Error).message);
  }
}
