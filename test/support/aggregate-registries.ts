import { afterEach } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { Instrument } from "../../src/sandbox/instrument.ts";
import { useGateways } from "./gateways.ts";
import type { GatewayTestOptions, GatewayUnderTest } from "./gateway.ts";
import { SampleRegistry, type SampleRegistryOptions } from "./sample-registry.ts";

/** Instruments whose ids begin with `prefix`, in the order of their ids. */
export function instrumentsOf(prefix: string, count: number): Instrument[] {
  return Array.from({ length: count }, (_, at) => {
    const number = String(at).padStart(5, "0");
    return {
      id: `${prefix}-${number}`,
      name: `${prefix} instrument ${number}`,
      symbol: `${prefix.slice(0, 3)}${number}`,
      decimals: 10,
      totalSupply: "12345678901234567890.10",
      totalSupplyAsOf: "2026-09-10T06:31:01.421109",
      supportedApis: { "splice-api-token-metadata-v1": 1 },
    };
  });
}

/** A gateway before sample registries, by the alias that each has; its admin is `{alias}::1220`. */
export interface Aggregate extends GatewayUnderTest {
  readonly registries: Readonly<Record<string, SampleRegistry>>;
  /** How often all registries together were asked for `operation`. */
  called(operation: "info" | "instruments" | "instrument"): number;
}

export type RegistryOptions = Readonly<Record<string, Partial<SampleRegistryOptions>>>;

/** Starts sample registries and gateways before them; all stop after each test. */
export function useAggregates(): {
  startRegistries: (options: RegistryOptions) => Promise<Record<string, SampleRegistry>>;
  startAggregate: (
    options: RegistryOptions,
    keys?: Record<string, unknown>,
    gateway?: GatewayTestOptions,
  ) => Promise<Aggregate>;
  startBefore: (
    registries: Record<string, SampleRegistry>,
    keys?: Record<string, unknown>,
    gateway?: GatewayTestOptions,
  ) => Promise<Aggregate>;
} {
  const startGateway = useGateways();
  const running: SampleRegistry[] = [];
  afterEach(async () => {
    await Promise.all(running.splice(0).map((registry) => registry.stop()));
  });

  async function startRegistries(options: RegistryOptions): Promise<Record<string, SampleRegistry>> {
    const entries = Object.entries(options).map(([name, each]) => {
      const registry = new SampleRegistry({
        admin: `${name}::1220`,
        clock: systemClock(),
        instruments: instrumentsOf(name.toUpperCase(), 30),
        ...each,
      });
      running.push(registry);
      return [name, registry] as const;
    });
    await Promise.all(entries.map(([, registry]) => registry.start()));
    return Object.fromEntries(entries);
  }

  async function startBefore(
    registries: Record<string, SampleRegistry>,
    keys: Record<string, unknown> = {},
    options: GatewayTestOptions = {},
  ): Promise<Aggregate> {
    const upstreams = Object.entries(registries).map(([name, { admin, url }]) => ({ name, admin, urls: [url] }));
    const gateway = await startGateway({ upstreams, ...keys }, options);
    const called = (operation: "info" | "instruments" | "instrument") =>
      Object.values(registries).reduce((sum, { calls }) => sum + calls.count(operation), 0);
    return { ...gateway, registries, called };
  }

  return {
    startRegistries,
    startBefore,
    startAggregate: async (options, keys, gateway) => startBefore(await startRegistries(options), keys, gateway),
  };
}

/** 10 registries of 1,000 instruments each, paged in both ways: 10 upstream pages each. */
export function tenRegistries(): RegistryOptions {
  const options = Array.from({ length: 10 }, (_, at) => {
    const name = `r${at}`;
    const paging = at % 2 === 0 ? ("keyset" as const) : ("index" as const);
    return [name, { instruments: instrumentsOf(name.toUpperCase(), 1_000), paging }] as const;
  });
  return Object.fromEntries(options);
}

/** Stands for what makes a page large, which is not written as JSON anew for each. */
const NOTE = "<note>";

/** Makes a registry list for ever, one instrument of so many bytes on each page. */
export function listForEver(registry: SampleRegistry, bytes: number): void {
  const note = "x".repeat(bytes);
  registry.script(({ operation, url }) => {
    if (operation !== "instruments") return undefined;
    const at = Number(new URL(url, "http://x").searchParams.get("pageToken")?.slice(1) ?? 0);
    const instrument = { ...instrumentsOf("ENDLESS", 1)[0], id: `ENDLESS-${at}`, note: NOTE };
    const page = JSON.stringify({ instruments: [instrument], nextPageToken: `t${at + 1}` });
    return { status: 200, body: page.replace(NOTE, () => note) };
  });
}

/** An answer with its body as text and as JSON. */
export interface Got {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: Record<string, unknown> & { readonly error?: string };
}

export async function get(url: string, init?: RequestInit): Promise<Got> {
  const response = await fetch(url, init);
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true && text !== "";
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : {} };
}

/** Every instrument of a listing, page by page. */
export async function readListing(url: string, pageSize: number): Promise<{ admin: string; id: string }[]> {
  const seen: { admin: string; id: string }[] = [];
  for (let token: string | undefined; ;) {
    const query = `pageSize=${pageSize}${token === undefined ? "" : `&pageToken=${token}`}`;
    const { status, json, text } = await get(`${url}?${query}`);
    if (status !== 200) throw new Error(`${status} ${text}`);
    seen.push(...(json.instruments as { admin: string; id: string }[]));
    if (json.nextPageToken === undefined) return seen;
    token = json.nextPageToken as string;
  }
}
