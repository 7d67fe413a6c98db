import { afterAll, beforeAll } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { ownContracts } from "../../src/sandbox/contracts.ts";
import { SampleRegistry, type SampleRegistryOptions } from "./sample-registry.ts";
import { DSO, UTILITY_ADMIN } from "./sample.ts";
import { type GatewayTestOptions, type GatewayUnderTest, startGateway } from "./gateway.ts";

/** The third registry's admin. */
const FUNDS_ADMIN = `fund-registry::1220${"d7dcf089".repeat(8)}`;

/** Nobody's admin. */
export const STRANGER = `stranger::1220${"5e".repeat(32)}`;

export type RegistryName = "amulet" | "bonds" | "funds";

export const REGISTRY_NAMES: readonly RegistryName[] = ["amulet", "bonds", "funds"];

export const ADMINS: Readonly<Record<RegistryName, string>> = {
  amulet: DSO,
  bonds: UTILITY_ADMIN,
  funds: FUNDS_ADMIN,
};

/** They differ in all that registries differ in; one ignores the admin in a body, so that only routing protects it. */
const BEHAVIOUR: Readonly<Record<RegistryName, Partial<SampleRegistryOptions>>> = {
  amulet: { paging: "keyset", style: "splice", instruments: 60 },
  bonds: { paging: "index", style: "utility", instruments: 105, checksBodyAdmin: false },
  funds: { paging: "ignored", style: "utility", instruments: 40, checksBodyAdmin: false },
};

export interface ThreeRegistries extends GatewayUnderTest {
  readonly registries: Readonly<Record<RegistryName, SampleRegistry>>;
  /** Forgets all calls so far. */
  clearCalls(): void;
  /** Which registries were called, with what operation, since the calls were last forgotten. */
  called(): string[];
}

export interface ThreeRegistriesOptions extends GatewayTestOptions {
  /** Further keys of the configuration. */
  readonly keys?: Record<string, unknown>;
  /** Further keys of every upstream. */
  readonly upstreamKeys?: Record<string, unknown>;
  readonly registry?: Partial<SampleRegistryOptions>;
  /** The same of one registry. */
  readonly of?: (name: RegistryName) => {
    readonly upstream?: Record<string, unknown>;
    readonly registry?: Partial<SampleRegistryOptions>;
  };
}

/** Three sample registries with the gateway before them; `funds` has to tell its admin by itself. */
async function startThreeRegistries(options: ThreeRegistriesOptions = {}): Promise<ThreeRegistries> {
  const entries = REGISTRY_NAMES.map((name) => {
    const admin = ADMINS[name];
    const registry = new SampleRegistry({
      admin,
      clock: systemClock(),
      contracts: ownContracts(admin),
      ...BEHAVIOUR[name],
      ...options.registry,
      ...options.of?.(name).registry,
    });
    return [name, registry] as const;
  });
  const registries = Object.fromEntries(entries) as Record<RegistryName, SampleRegistry>;
  await Promise.all(entries.map(([, registry]) => registry.start()));
  const gateway = await startGateway(
    {
      ...options.keys,
      upstreams: entries.map(([name, registry]) => ({
        name,
        ...(name === "funds" ? {} : { admin: registry.admin }),
        urls: [registry.url],
        ...options.upstreamKeys,
        ...options.of?.(name).upstream,
      })),
    },
    options,
  );
  for (const upstream of gateway.gateway.upstreams().all) {
    await upstream.learnAdmin((options.clock ?? systemClock()).now() + 10_000);
  }
  const running: ThreeRegistries = {
    ...gateway,
    registries,
    clearCalls() {
      for (const [, registry] of entries) registry.calls.clear();
    },
    called: () =>
      entries.flatMap(([name, registry]) => registry.calls.recent.map(({ operation }) => `${name} ${operation}`)),
    async stop() {
      await gateway.stop();
      await Promise.all(entries.map(([, registry]) => registry.stop()));
    },
  };
  running.clearCalls();
  return running;
}

/** {@link startThreeRegistries} for all tests of a file or block. */
export function useThreeRegistries(options: ThreeRegistriesOptions = {}): () => ThreeRegistries {
  let running: ThreeRegistries | undefined;
  beforeAll(async () => {
    running = await startThreeRegistries(options);
  });
  afterAll(async () => {
    await running?.stop();
  });
  return () => running!;
}
