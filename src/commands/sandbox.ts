import { FAULT_NAMES, type FaultRates } from "../sandbox/faults.ts";
import { type Sandbox, type SandboxOptions, startSandbox } from "../sandbox/sandbox.ts";
import { CommandError, EXIT, print, sayFailure, untilInterrupted } from "./terminal.ts";

/** Options of the command line. */
export interface SandboxFlags extends Omit<SandboxOptions, "faults" | "pageSize"> {
  readonly pageSize: number;
  readonly maxPageSize: number;
  readonly beyond: "clamp" | "refuse";
  /** `error-500=0.1`. */
  readonly fault?: readonly string[];
}

/** `sandbox`: a sample registry for those who integrate and have none, until Ctrl-C. @throws CommandError */
export async function sandbox(flags: SandboxFlags): Promise<number> {
  const { pageSize, maxPageSize, beyond, fault = [], ...options } = flags;
  const sizes = { default: pageSize, most: maxPageSize, beyond };
  const registry = await start({ ...options, pageSize: sizes, faults: readFaults(fault) });
  print(instructions(registry));
  await untilInterrupted();
  await registry.close();
  return EXIT.ok;
}

async function start(options: SandboxOptions): Promise<Sandbox> {
  try {
    return await startSandbox(options);
  } catch (error) {
    if (error instanceof TypeError) throw new CommandError(error.message);
    throw new CommandError(
      `the sandbox cannot listen there: ${sayFailure(error)}. Choose another --port (0: any free one)`,
    );
  }
}

/** The rates of `error-500=0.1`, one for each option; what they are worth, the sandbox says. */
function readFaults(texts: readonly string[]): FaultRates {
  return Object.fromEntries(
    texts.map((text) => {
      const [name = "", rate = "1"] = text.split("=", 2);
      return [name, rate === "" ? NaN : Number(rate)];
    }),
  );
}

function instructions({ url, admin }: Sandbox): string {
  const contract = `00${"5a".repeat(68)}`;
  return `A sample registry is running.

  base URL  ${url}
  admin     ${admin}

  curl -s '${url}/registry/metadata/v1/info'
  curl -s '${url}/registry/metadata/v1/instruments?pageSize=3'
  curl -s -X POST '${url}/registry/allocations/v1/${contract}/choice-contexts/cancel'

Any contract id of 138 hexadecimal digits is known. One that begins with "reassigned" is 409, every other 404.

A request gets a fault by its query, or by the field x-sandbox-fault:
${FAULT_NAMES.join(", ")}

  curl -si '${url}/registry/metadata/v1/info?fault=html-502'

Put the gateway before it:

  registry-gateway start --upstream ${url}

Stop with Ctrl-C.`;
}
