import { describeCall, type SandboxCall } from "./control.ts";
import { SampleRegistry } from "./registry.ts";
import { readFaults, registryOptions, type SandboxOptions } from "./sandbox-options.ts";

export { SandboxOptionError, type SandboxOptions } from "./sandbox-options.ts";
export type { SandboxCall } from "./control.ts";
export type { Instrument } from "./instrument.ts";

/** A sample registry that is running. */
export interface Sandbox {
  /** Its base URL, without `/registry`. */
  readonly url: string;
  /** Party id of its instrument admin. */
  readonly admin: string;
  /** The last 1,000 requests, oldest first. */
  readonly calls: readonly SandboxCall[];
  /**
   * The next `times` requests that name `id` get `fault`: by default one, and status 500. `id` is an instrument's or
   * contract's, in the path, the page token or the body; or the name of an endpoint, such as `info`.
   *
   * @throws SandboxOptionError for a fault that there is not
   */
  fail(id: string, times?: number, fault?: string): void;
  /** Ends it and all its connections. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts a sample registry on this machine: both versions of the standard over real HTTP, with made-up data that is the same
 * each time. Pages of any origin may call it.
 *
 * @throws SandboxOptionError for an option that cannot be understood; Node's own error where the port is taken
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const faults = readFaults(options.faults ?? []);
  const registry = new SampleRegistry(registryOptions(options));
  await registry.faults.set(...faults);
  await registry.start();
  const close = (): Promise<void> => registry.stop();
  return {
    url: registry.url,
    admin: registry.admin,
    get calls() {
      return registry.calls.recent.map(describeCall);
    },
    fail: (id, times = 1, fault = "500") => registry.faults.failFor(id, readFaults([fault])[0]!, times),
    close,
    [Symbol.asyncDispose]: close,
  };
}
