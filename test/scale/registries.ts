import { ask, startProcess, stop } from "../bench/child.ts";
import type { ManyRegistriesOptions, RegistryCount } from "../bench/many-registries-process.ts";

/** Nothing expires while this runs. */
const LASTING = { ttl: { info: "1h", instruments: "1h", instrument: "1h" } };

/** Each page says in this field which one it is, counted over all registries. */
export const NUMBER_FIELD = "x-page-number";

/** Many registries in one process. */
export interface Registries {
  /** Keys of a gateway's configuration before the first `count` of them, each under the alias `r0`, `r1`, …. */
  configOf(count: number, memory?: string): Record<string, unknown>;
  /** Pages that were asked for so far, of all of them together. */
  pages(): Promise<number>;
  stop(): Promise<void>;
}

export async function startRegistries({
  count,
  instruments,
}: {
  readonly count: number;
  readonly instruments: number;
}): Promise<Registries> {
  const admins = Array.from({ length: count }, (_, at) => `registry-${at}::1220${"a".repeat(64)}`);
  const options: ManyRegistriesOptions = { admins, instruments, numberField: NUMBER_FIELD };
  const { child, port } = await startProcess("many-registries-process.ts", options);
  return {
    configOf: (count, memory = "64MiB") => ({
      cache: { ...LASTING, memory: { maxBytes: memory, maxObject: "1MiB" } },
      upstreams: admins
        .slice(0, count)
        .map((admin, at) => ({ name: `r${at}`, admin, urls: [`http://127.0.0.1:${port}/${at}`] })),
    }),
    pages: async () => (await ask<RegistryCount>(child, {})).pages,
    stop: () => stop(child),
  };
}

/** A page of the registry `r{n}`: as long for every registry. */
export function pagePath(registry: number | "{n}", pageSize: number | "{n}" = 20): string {
  return `/api/token-standard/v0/registrars/r${registry}/registry/metadata/v1/instruments?pageSize=${pageSize}`;
}
