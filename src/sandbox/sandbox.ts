import { describeCall, type SandboxCall } from "./control.ts";
import { SampleRegistry } from "./registry.ts";
import type { Lie } from "./lies.ts";
import { nodeOptions, readFaults, type SandboxOptions } from "./sandbox-options.ts";

export { SandboxOptionError, type SandboxOptions } from "./sandbox-options.ts";
export type { SandboxCall } from "./control.ts";
export type { Instrument } from "./instrument.ts";

/** A node of a sample registry. */
export interface SandboxNode {
  /** Its base URL, without `/registry`. */
  readonly url: string;
  /** In what it differs from the honest nodes; undefined for one of these. */
  readonly lie: Lie | undefined;
  /** The last 1,000 requests, oldest first. */
  readonly calls: readonly SandboxCall[];
  /**
   * The next `times` requests that name `id` get `fault`: by default one, and status 500. `id` is an instrument's or
   * contract's, in the path, the page token or the body; or the name of an endpoint, such as `info`.
   *
   * @throws SandboxOptionError for a fault that there is not
   */
  readonly fail: (id: string, times?: number, fault?: string) => void;
}

/** A sample registry that is running; of its nodes it is the first itself. */
export interface Sandbox extends SandboxNode {
  /** Party id of its instrument admin. */
  readonly admin: string;
  readonly nodes: readonly SandboxNode[];
  /** Ends it and all its connections. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts a sample registry on this machine: both versions of the standard over real HTTP, with made-up data that is the same
 * each time. Pages of any origin may call it.
 *
 * @throws SandboxOptionError for an option that cannot be understood; Node's own error where it cannot listen
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const faults = readFaults(options.faults ?? []);
  const started: { readonly registry: SampleRegistry; readonly node: SandboxNode }[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(started.map(({ registry }) => registry.stop()));
  };
  try {
    for (const { lie, registry: given } of nodeOptions(options)) {
      const registry = new SampleRegistry(given);
      await registry.faults.set(...faults);
      await registry.start();
      started.push({ registry, node: describeNode(registry, lie) });
    }
  } catch (error) {
    await close();
    throw error;
  }
  const nodes = started.map(({ node }) => node);
  const first = nodes[0]!;
  return {
    admin: started[0]!.registry.admin,
    nodes,
    url: first.url,
    lie: first.lie,
    get calls() {
      return first.calls;
    },
    fail: first.fail,
    close,
    [Symbol.asyncDispose]: close,
  };
}

function describeNode(registry: SampleRegistry, lie: Lie | undefined): SandboxNode {
  return {
    url: registry.url,
    lie,
    get calls() {
      return registry.calls.recent.map(describeCall);
    },
    fail: (id, times = 1, fault = "500") => registry.faults.failFor(id, readFaults([fault])[0]!, times),
  };
}
