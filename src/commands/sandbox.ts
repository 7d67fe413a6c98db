import { systemClock } from "../clock.ts";
import { parseDuration } from "../units.ts";
import { FAULT_NAMES, FAULT_QUERY, type CallFault, type FaultScope, faultNamed } from "../sandbox/faults.ts";
import type { PageStyle } from "../sandbox/paging.ts";
import { SampleRegistry } from "../sandbox/registry.ts";
import { OPERATIONS } from "../spec/operations.ts";
import { EXIT, parsePort, UsageError } from "./command-line.ts";
import { printLine, printLines } from "./terminal.ts";

const DEFAULTS = { host: "127.0.0.1", port: 7001, admin: `sandbox::1220${"13f1b3a8".repeat(8)}` };
const MAX_INSTRUMENTS = 100_000;

const PAGING: Readonly<Record<string, PageStyle>> = {
  keyset: "keyset",
  index: "index",
  ignored: "ignores-paging",
};

const STYLES = ["splice", "utility"] as const;
const UNKNOWN_PATHS = ["own", "html"] as const;

/**
 * `sandbox`: a sample registry for those who integrate and have none, with latency, paging and faults on demand.
 *
 * @throws UsageError for an option that cannot be understood
 */
export async function sandbox(options: Readonly<Record<string, unknown>>): Promise<number> {
  const host = typeof options["host"] === "string" ? options["host"] : DEFAULTS.host;
  const registry = new SampleRegistry({
    admin: typeof options["admin"] === "string" ? options["admin"] : DEFAULTS.admin,
    clock: systemClock(),
    host,
    port: parsePort("--port", options["port"]) ?? DEFAULTS.port,
    instruments: parseInstruments(options["instruments"]),
    pageStyle: parsePaging(options["paging"]),
    latency: parseLatency(options["latency"]),
    errorStyle: parseChoice("--style", options["style"], STYLES),
    supportsV2: parseVersions(options["versions"]),
    unknownPaths: parseChoice("--unknown-paths", options["unknown-paths"], UNKNOWN_PATHS),
    etags: true,
    givesFaults: true,
    isStrict: options["strict"] === true,
    allowsBrowsers: true,
  });
  await registry.faults.set(...parseFaults(options["fault"]));
  try {
    await registry.start();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    printLine("the port is taken: choose another with --port (0: any free one)", process.stderr);
    return EXIT.failure;
  }
  printLines(instructions(registry));
  await new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
  await registry.stop();
  return EXIT.ok;
}

function parseInstruments(value: unknown): number {
  if (value === undefined) return 60;
  const count = typeof value === "string" && /^[0-9]{1,6}$/.test(value) ? Number(value) : Number.NaN;
  if (!(count <= MAX_INSTRUMENTS)) throw new UsageError(`--instruments takes a number up to ${MAX_INSTRUMENTS}`);
  return count;
}

function parsePaging(value: unknown): PageStyle {
  const style = PAGING[typeof value === "string" ? value : "keyset"];
  if (style === undefined) throw new UsageError(`--paging takes ${Object.keys(PAGING).join(", ")}`);
  return style;
}

function parseLatency(value: unknown): number {
  const latency = typeof value === "string" ? parseDuration(value) : 0;
  if (latency === undefined) throw new UsageError("--latency takes a duration such as 400ms or 2s");
  return latency;
}

/** One of `choices`; the first where the option is not given. */
function parseChoice<Choice extends string>(option: string, value: unknown, choices: readonly Choice[]): Choice {
  const choice = choices.find((each) => each === (value ?? choices[0]));
  if (choice === undefined) throw new UsageError(`${option} takes ${choices.join(" or ")}`);
  return choice;
}

/** Whether version 2 is among them; version 1 always is. */
function parseVersions(value: unknown): boolean {
  if (value === undefined || value === "v1,v2") return true;
  if (value !== "v1") throw new UsageError("--versions takes v1 or v1,v2");
  return false;
}

function parseFaults(values: unknown): (CallFault & FaultScope)[] {
  return ((values ?? []) as string[]).map(parseFault);
}

const FAULT_OPTION = /^([a-z0-9-]+)(?::([0-9.]{1,10}))?(?:\*([1-9][0-9]{0,5}))?(?:@([a-z0-9_]+))?$/;

/** `429:0.1` befalls a tenth of the calls, `hang` all, `503*3` the first three, `503@info` those of one endpoint. */
function parseFault(text: string): CallFault & FaultScope {
  const [, name = "", share = "1", times, only] = FAULT_OPTION.exec(text) ?? [];
  const fault = faultNamed(name);
  const rate = Number(share);
  if (fault === undefined || !(rate > 0 && rate <= 1)) {
    throw new UsageError(
      `--fault takes a status from 400 to 599 or one of ${FAULT_NAMES.join(", ")}, a share, a number of times and an endpoint: 429:0.1*3@info`,
    );
  }
  const scope: FaultScope = { rate, ...(times === undefined ? {} : { times: Number(times) }) };
  if (only === undefined) return { ...fault, ...scope };
  const operation = OPERATIONS.find((each) => each === only);
  if (operation === undefined) throw new UsageError(`--fault takes one of the endpoints ${OPERATIONS.join(", ")}`);
  return { ...fault, ...scope, operations: [operation] };
}

function instructions(registry: SampleRegistry): string {
  const { admin, url } = registry;
  return `A sample registry is running.

  base URL  ${url}
  admin     ${admin}

  curl -s '${url}/registry/metadata/v1/info'
  curl -s '${url}/registry/metadata/v1/instruments?pageSize=3'

Any request gets a fault by its query, whatever --fault says: ?${FAULT_QUERY}=429, a status from 400 to 599, or one of
${FAULT_NAMES.join(", ")}:

  curl -si '${url}/registry/metadata/v1/info?${FAULT_QUERY}=html-404'

Put the gateway before it: registry-gateway start --upstream ${url}
It drops queries but passes ids on, so an id that says so gets a fault, too, wherever it stands: ids of instruments and
contracts in paths, page tokens, and ids in bodies:

  curl -si -X POST 'http://127.0.0.1:8080/registry/allocations/v2/fault-409/choice-contexts/withdraw'

Stop with Ctrl-C.
`;
}
