import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { createKey, digestOfKey } from "../../src/clients/api-key.ts";
import { systemClock } from "../../src/clock.ts";
import { ownContracts } from "../../src/sandbox/contracts.ts";
import { instrumentsOf } from "./aggregate-registries.ts";
import { type GatewayTestOptions, type GatewayUnderTest, startGateway } from "./gateway.ts";
import { SampleRegistry } from "./sample-registry.ts";

export const UPSTREAMS = ["amulet", "bonds", "funds", "gold", "stocks"] as const;
export type UpstreamName = (typeof UPSTREAMS)[number];

/** A client's key, as its file has it. */
export interface FileKey {
  readonly name: string;
  readonly tier: string;
  readonly digest: string;
  readonly expires?: string;
}

/** What each tier may use. */
export const VIEWS: Readonly<Record<string, readonly UpstreamName[]>> = {
  anonymous: ["amulet"],
  wallet: ["amulet", "bonds", "funds"],
  exchange: UPSTREAMS,
};

/** Tiers without limits, but for {@link VIEWS}. */
export const TIERS = {
  anonymous: { upstreams: VIEWS["anonymous"] },
  wallet: { upstreams: VIEWS["wallet"] },
  exchange: { upstreams: ["*"] },
};

/** A key and its entry for the keys file. */
export function newClient(
  name: string,
  tier: string,
  expires?: string,
): { readonly key: string; readonly entry: FileKey } {
  const key = createKey();
  return { key, entry: { name, tier, digest: digestOfKey(key), ...(expires === undefined ? {} : { expires }) } };
}

export interface FiveRegistries extends GatewayUnderTest {
  readonly registries: Readonly<Record<UpstreamName, SampleRegistry>>;
  /** Of a client of each tier that needs one; and of one whose key has expired. */
  readonly keys: Readonly<Record<"wallet" | "exchange" | "expired", string>>;
  readonly keysFile: string;
  /** The configuration that it began with. */
  readonly configured: Record<string, unknown>;
  /** Which registries were called since the calls were last forgotten. */
  called(): UpstreamName[];
  clearCalls(): void;
}

export interface FiveRegistriesOptions extends GatewayTestOptions {
  readonly clients?: Record<string, unknown>;
  /** Further keys of the configuration. */
  readonly keys?: Record<string, unknown>;
  readonly upstreamKeys?: Record<string, unknown>;
}

/** Five sample registries, each with instruments and contracts of its own, behind a gateway that knows its clients. */
export async function startFiveRegistries(options: FiveRegistriesOptions = {}): Promise<FiveRegistries> {
  const folder = mkdtempSync(join(tmpdir(), "gateway-test-"));
  const keysFile = join(folder, "clients.jsonl");
  const clients = {
    wallet: newClient("wallet-a", "wallet"),
    exchange: newClient("exchange-a", "exchange"),
    expired: newClient("wallet-old", "wallet", "2020-01-31T00:00:00Z"),
  };
  writeFileSync(
    keysFile,
    Object.values(clients)
      .map(({ entry }) => `${JSON.stringify(entry)}\n`)
      .join(""),
  );
  const entries = UPSTREAMS.map((name) => {
    const admin = `${name}::1220${"ab".repeat(32)}`;
    const instruments = instrumentsOf(name.toUpperCase(), 7);
    return [
      name,
      new SampleRegistry({ admin, clock: systemClock(), instruments, contracts: ownContracts(admin) }),
    ] as const;
  });
  await Promise.all(entries.map(([, registry]) => registry.start()));
  const registries = Object.fromEntries(entries) as Record<UpstreamName, SampleRegistry>;
  const configured = {
    clients: { keysFile, tiers: TIERS, ...options.clients },
    upstreams: entries.map(([name, { admin, url }]) => ({ name, admin, urls: [url], ...options.upstreamKeys })),
    ...options.keys,
  };
  const gateway = await startGateway(configured, options);
  for (const upstream of gateway.gateway.upstreams().all) {
    await upstream.learnAdmin((options.clock ?? systemClock()).now() + 10_000);
  }
  const clearCalls = () => {
    for (const [, { calls }] of entries) calls.clear();
  };
  clearCalls();
  return {
    ...gateway,
    registries,
    keys: { wallet: clients.wallet.key, exchange: clients.exchange.key, expired: clients.expired.key },
    keysFile,
    configured,
    called: () => UPSTREAMS.filter((name) => registries[name].calls.total > 0),
    clearCalls,
    async stop() {
      await gateway.stop();
      await Promise.all(entries.map(([, registry]) => registry.stop()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** {@link startFiveRegistries} for all tests of a file or block. */
export function useFiveRegistries(options: FiveRegistriesOptions = {}): () => FiveRegistries {
  let running: FiveRegistries | undefined;
  beforeAll(async () => {
    running = await startFiveRegistries(options);
  });
  afterAll(async () => {
    await running?.stop();
  });
  return () => running!;
}
