import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { ConfigError, suggest } from "../config/problem.ts";
import { findNodeUrlFault, normaliseNodeUrl } from "../config/urls.ts";
import { parseDuration } from "../units.ts";
import { version } from "../version.ts";
import type { OperationsFlags } from "./operations-client.ts";
import type { SandboxFlags } from "./sandbox.ts";
import { CommandError, complain, EXIT } from "./terminal.ts";

/**
 * Runs the command that the arguments name, `start` where they name none.
 *
 * @returns the exit code: 0, 78 bad configuration, 1 anything else, but for `status --exit-code`
 */
export async function run(args: readonly string[]): Promise<number> {
  let code: number = EXIT.ok;
  const program = createProgram(async (work) => {
    code = await work;
  });
  try {
    const [first = ""] = args;
    const names = program.commands.map((command) => command.name());
    if (/^[a-z]/.test(first) && ![...names, "help"].includes(first)) {
      throw new CommandError(`there is no command ${first}${suggest(first, names)}`);
    }
    await program.parseAsync(args, { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode;
    if (error instanceof ConfigError) complain(error.message);
    else if (error instanceof CommandError) complain(`registry-gateway: ${error.message}`);
    else throw error;
    return error instanceof ConfigError ? EXIT.badConfig : EXIT.failure;
  }
}

/** Notes what a command gives as its exit code. */
type Perform = (work: Promise<number> | number) => Promise<void>;

/** Each command loads its own modules when it runs: a command pays for no other. */
function createProgram(perform: Perform): Command {
  const program = new Command("registry-gateway")
    .description("A caching reverse proxy and gateway for token registries.")
    .version(version)
    .exitOverride()
    .showHelpAfterError("(--help says what there is)")
    .addHelpText("after", "\nExit codes: 0 stopped cleanly or all is well, 78 bad configuration, 1 anything else.");
  addServing(program, perform);
  addLooking(program, perform);
  addSamples(program, perform);
  addOperating(program, perform);
  addClients(program, perform);
  return program;
}

const CONFIG =
  "the configuration; by default $GATEWAY_CONFIG, config/gateway.yaml or /etc/registry-gateway/gateway.yaml, in this order";

function addServing(program: Command, perform: Perform): void {
  program
    .command("start", { isDefault: true })
    .description("Serve (the default). With --upstream no file is needed: admins are learned and printed.")
    .option("--config <file>", CONFIG)
    .addOption(new Option("--upstream <url...>", "base URLs of registries, each its own").conflicts("config"))
    .addOption(
      new Option("--redis <url>", "with --upstream: share the cache and limits by this Redis").conflicts("config"),
    )
    .addOption(new Option("--port <n>", "with --upstream: the port to serve on").argParser(port).conflicts("config"))
    .action(async (options) => {
      // Loading takes some tenths of a second, in which a reload would end the process.
      process.on("SIGHUP", () => undefined);
      return perform((await import("./start.ts")).start(options));
    });
  program
    .command("check")
    .description("Print every problem of a configuration, a line each: file:line:column: path: message.")
    .option("--config <file>", CONFIG)
    .option("--live", "ask each node for info and one page, look at its TLS, and log in to Redis")
    .option("--print", "print the effective configuration, without secrets")
    .option("--diff <old>", "print what changes from the file OLD to this one")
    .action(async (options) => perform((await import("./check.ts")).check(options)));
}

function addLooking(program: Command, perform: Perform): void {
  program
    .command("inspect")
    .description(
      "Print what the registry at a base URL is like: admin, APIs, pages, errors, freshness, CORS, TLS, latency.",
    )
    .argument("<url>", "the base URL, with or without /registry", nodeUrl)
    .option("--json", "print it as JSON")
    .action(async (url, options) => perform((await import("./inspect.ts")).inspect(url, options)));
  program
    .command("import")
    .description(
      "Print a published list of registries as the upstreams of a configuration. Review it before you use it.",
    )
    .argument("<file-or-url>", "the list")
    .option("--network <name>", "take the registries of this network alone")
    .option("--verify", "ask each URL whose it is, and leave out what does not fit")
    .action(async (list, options) => perform((await import("./import.ts")).importList(list, options)));
}

function addSamples(program: Command, perform: Perform): void {
  program
    .command("demo")
    .description("Run three sample registries and the gateway before them, memory only, and print commands to try.")
    .option("--port <n>", "of the gateway; 0 is any free one", port, 8080)
    .option("--operations-port <n>", "of its operations listener; 0 is any free one", port, 9090)
    .action(async (options) => perform((await import("./demo.ts")).demo(options)));
  program
    .command("sandbox")
    .description("Run a sample registry of both versions of the standard, for those who integrate and have none.")
    .option("--port <n>", "0 is any free one", port, 7001)
    .option("--host <host>", "the address to listen on", "127.0.0.1")
    .option("--name <name>", "of the party that is its admin", "sandbox")
    .option("--admin <party>", "the admin's party id; by default made of --name")
    .option("--seed <n>", "makes other data; by default made of the admin", count)
    .option("--instruments <n>", "how many it has", count, 60)
    .addOption(choice("--apis <versions>", "versions that it serves", ["both", "v1", "v2"]))
    .addOption(choice("--paging <kind>", "what page tokens are", ["token-id", "token-index", "none"]))
    .option("--page-size <n>", "instruments on a page where none is asked for", count, 25)
    .option("--max-page-size <n>", "most instruments on a page", count, 1_000)
    .addOption(choice("--beyond <how>", "what becomes of a request for more", ["clamp", "refuse"]))
    .option("--latency <duration>", "how long each answer takes, such as 400ms", duration)
    .option("--jitter <duration>", "up to so much longer, at random", duration)
    .option("--slow <duration>", "how much later the fault slow answers; 3s by default", duration)
    .option("--fault <kind=rate...>", "a share of the requests gets this fault, such as busy-429=0.1")
    .option("--cache-control <value>", "the Cache-Control of metadata")
    .option("--rate-limit <rate>", "what is beyond it is a 429, such as 120/1m", rate)
    .action(async (flags: SandboxFlags) => perform((await import("./sandbox.ts")).sandbox(flags)));
}

function addOperating(program: Command, perform: Perform): void {
  withOperations(program.command("status"))
    .description("Print how a running gateway is.")
    .option("--exit-code", "exit with 0 well, 1 warning, 2 page")
    .action(async (flags) => perform((await import("./operate.ts")).status(flags)));
  withOperations(program.command("purge"))
    .description("Take what is stored of one registry, or all of it, out of the cache of all replicas.")
    .argument("[upstream]", "the name of the registry's upstream; all where it is left out")
    .action(async (name, flags: OperationsFlags) => perform((await import("./operate.ts")).purge(name, flags)));
  withOperations(program.command("explain"))
    .description("Print which registry a URL of the gateway means, and what the cache would do with it.")
    .argument("<url>", "the URL, or its path")
    .action(async (url, flags: OperationsFlags) => perform((await import("./operate.ts")).explain(url, flags)));
}

function withOperations(command: Command): Command {
  return command
    .option("--config <file>", `names the operations listener and its token: ${CONFIG}`)
    .option("--url <url>", "the operations listener")
    .option("--token <token>", "an operator's token")
    .option("--json", "print its answer as JSON");
}

function addClients(program: Command, perform: Perform): void {
  const clients = program.command("clients").description("Make API keys, and check files of them.");
  clients
    .command("new")
    .description("Print a new API key, once, and the line for the keys file.")
    .argument("<name>", "the client's name, in logs and metrics")
    .option("--tier <name>", "the client's tier", "anonymous")
    .option("--expires <when>", "how long it is good (90d, 12h), or a time; by default until it is taken out")
    .action(async (name, options) => perform((await import("./clients.ts")).newClient(name, options)));
  clients
    .command("check")
    .description("Print what is wrong with a keys file.")
    .argument("<file>", "the keys file")
    .action(async (file) => perform((await import("./clients.ts")).checkClients(file)));
}

function choice(flags: string, description: string, words: readonly string[]): Option {
  return new Option(flags, description).choices(words).default(words[0]);
}

function port(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new InvalidArgumentError("It is a number from 0 to 65535.");
}

function count(text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It is a number from 0 to 999999.");
}

function duration(text: string): number {
  const value = parseDuration(text);
  if (value !== undefined) return value;
  throw new InvalidArgumentError("It is a duration such as 400ms or 2s.");
}

function rate(text: string): { requests: number; per: number } {
  const [requests = "", per = ""] = text.split("/", 2);
  const window = parseDuration(per);
  if (/^\d{1,6}$/.test(requests) && window !== undefined) return { requests: Number(requests), per: window };
  throw new InvalidArgumentError("It is a rate such as 120/1m.");
}

function nodeUrl(text: string): string {
  const fault = findNodeUrlFault(text);
  if (fault === undefined) return normaliseNodeUrl(text);
  throw new InvalidArgumentError(`It ${fault}.`);
}
