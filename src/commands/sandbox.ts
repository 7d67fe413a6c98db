import { FAULT_NAMES, FAULT_QUERY } from "../sandbox/faults.ts";
import {
  type Sandbox,
  type SandboxNode,
  SandboxOptionError,
  type SandboxOptions,
  startSandbox,
} from "../sandbox/sandbox.ts";
import { EXIT, parsePort, UsageError } from "./command-line.ts";
import { printLine, printLines, untilInterrupted } from "./terminal.ts";

const PORT = 7001;

/** Options whose name on the command line is another. */
const FLAGS: Readonly<Partial<Record<keyof SandboxOptions, string>>> = {
  unknownPaths: "unknown-paths",
  version: "versions",
  faults: "fault",
  contracts: "contract",
  lies: "lie",
  rollOver: "roll-over",
};

/**
 * `sandbox`: a sample registry for those who integrate and have none, with latency, paging and faults on demand.
 *
 * @throws UsageError for an option that cannot be understood
 */
export async function sandbox(options: Readonly<Record<string, unknown>>): Promise<number> {
  let registry: Sandbox;
  try {
    registry = await startSandbox(sandboxOptions(options));
  } catch (error) {
    if (error instanceof SandboxOptionError)
      throw new UsageError(`--${FLAGS[error.option] ?? error.option} ${error.problem}`);
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall !== "listen" && syscall !== "getaddrinfo") throw error;
    const why =
      code === "EADDRINUSE"
        ? "a port is taken: choose another with --port (0: any free one)"
        : `it cannot listen there (${code}): choose another --host or --port`;
    printLine(why, process.stderr);
    return EXIT.failure;
  }
  printLines(instructions(registry));
  await untilInterrupted();
  await registry.close();
  return EXIT.ok;
}

/** The options of the command line as those of `startSandbox`, which looks at their values. */
function sandboxOptions(options: Readonly<Record<string, unknown>>): SandboxOptions {
  const {
    "unknown-paths": unknownPaths,
    "roll-over": rollOver,
    versions,
    fault,
    contract,
    lie,
    port,
    ...same
  } = options;
  if (versions !== undefined && versions !== "v1" && versions !== "v1,v2") {
    throw new UsageError("--versions takes v1 or v1,v2");
  }
  const given = {
    ...same,
    port: parsePort("--port", port) ?? PORT,
    version: versions === "v1" ? "v1" : undefined,
    unknownPaths,
    faults: fault,
    contracts: contract,
    lies: lie,
    rollOver,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function instructions(registry: Sandbox): string {
  const { admin, url, nodes } = registry;
  return `A sample registry is running.

  base URL  ${url}
  admin     ${admin}

  curl -s '${url}/registry/metadata/v1/info'
  curl -s '${url}/registry/metadata/v1/instruments?pageSize=3'

Any request gets a fault by its query, whatever --fault says: ?${FAULT_QUERY}=429, a status from 400 to 599, or one of
${FAULT_NAMES.join(", ")}:

  curl -si '${url}/registry/metadata/v1/info?${FAULT_QUERY}=html-404'

${nodes.length === 1 ? `Put the gateway before it: registry-gateway start --upstream ${url}` : instructionsForNodes(nodes)}
The gateway drops queries but passes ids on, so an id that says so gets a fault, too, wherever it stands: ids of instruments and
contracts in paths, page tokens, and ids in bodies:

  curl -si -X POST 'http://127.0.0.1:8080/registry/allocations/v2/fault-409/choice-contexts/withdraw'

The registry says what it was asked, and lets what names an id fail as often as told:

  curl -s '${url}/sandbox/calls'
  curl -s '${url}/sandbox/fail' -d '{"id": "Amulet", "times": 2, "fault": "503"}'

Stop with Ctrl-C.
`;
}

function instructionsForNodes(nodes: readonly SandboxNode[]): string {
  const urls = nodes.map(({ url, lie }) => `      - ${url}${lie === undefined ? "" : ` # ${lie}`}`);
  return `The registry has ${nodes.length} nodes. Put the gateway before them by a file for registry-gateway start --config FILE:

upstreams:
  - name: sandbox
    urls:
${urls.join("\n")}
    agreement: { metadata: 2, contexts: 2 }
`;
}
