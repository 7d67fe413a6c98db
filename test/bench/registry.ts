import { DSO, FACTORY_RESPONSE, INFO, INSTRUMENT, PAGE } from "./bodies.ts";
import { ask, startProcess, stop } from "./child.ts";
import type { BenchServer } from "./server.ts";
import type { RegistryOptions } from "./registry-process.ts";

export interface BenchRegistry extends BenchServer {
  /** Calls since the last time this was asked. */
  calls(): Promise<number>;
}

/** A registry of fixed answers, so lean that it never holds up what is measured. */
export async function startRegistry(delay = 0): Promise<BenchRegistry> {
  const options: RegistryOptions = { info: INFO, page: PAGE, instrument: INSTRUMENT, factory: FACTORY_RESPONSE, delay };
  const { child, port } = await startProcess("registry-process.ts", options);
  return {
    name: "registry",
    pid: child.pid!,
    port,
    stop: () => stop(child),
    calls: async () => (await ask<{ calls: number }>(child, {})).calls,
  };
}

/** Keys of a gateway's configuration before such a registry; nothing expires while the bench runs. */
export function gatewayBefore(registries: readonly BenchServer[]): Record<string, unknown> {
  return {
    cache: { ttl: { info: "1h", instruments: "1h", instrument: "1h" } },
    upstreams: [{ name: "amulet", admin: DSO, urls: registries.map(({ port }) => `http://127.0.0.1:${port}`) }],
  };
}
