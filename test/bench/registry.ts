import { DSO, FACTORY_RESPONSE, INSTRUMENT, PAGE } from "./bodies.ts";
import { ask, startProcess, stop } from "./child.ts";
import type { BenchServer } from "./server.ts";
import type { RegistryOptions } from "./registry-process.ts";

export interface BenchRegistry extends BenchServer {
  /** Calls since the last time this was asked. */
  calls(): Promise<number>;
}

/** A registry of fixed answers, so lean that it never holds up what is measured. */
export async function startRegistry({ admin = DSO, delay = 0 } = {}): Promise<BenchRegistry> {
  const info = JSON.stringify({ adminId: admin, supportedApis: {} });
  const options: RegistryOptions = { info, page: PAGE, instrument: INSTRUMENT, factory: FACTORY_RESPONSE, delay };
  const { child, port } = await startProcess("registry-process.ts", options);
  return {
    name: "registry",
    pid: child.pid!,
    port,
    stop: () => stop(child),
    calls: async () => (await ask<{ calls: number }>(child, {})).calls,
  };
}

/** Nothing expires while the bench runs. */
export const LASTING = { ttl: { info: "1h", instruments: "1h", instrument: "1h" } };

/** Keys of a gateway's configuration before the nodes of such a registry. */
export function gatewayBefore(
  nodes: readonly BenchServer[],
  upstream: Record<string, unknown> = {},
): Record<string, unknown> {
  const urls = nodes.map(({ port }) => `http://127.0.0.1:${port}`);
  return { cache: LASTING, upstreams: [{ name: "amulet", admin: DSO, urls, ...upstream }] };
}
