import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach } from "vitest";
import { FileWatcher } from "../../src/config/watched-files.ts";
import { type Clock, systemClock } from "../../src/clock.ts";
import type { Config } from "../../src/config/schema.ts";
import { Discovery } from "../../src/discovery/discovery.ts";
import { Search, type SearchOptions } from "../../src/discovery/search.ts";
import { createDiscoveryObserver } from "../../src/observe/discovery-observer.ts";
import { createLogger } from "../../src/observe/log.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import type { DiscoveryReport, RegistryReport } from "../../src/discovery/report.ts";
import { type FoundRegistries, NOTHING_FOUND } from "../../src/upstream/found.ts";
import { type GatewayUnderTest, testConfig } from "./gateway.ts";
import { until } from "./until.ts";

/** Discovery by itself, that writes no log. */
export function createTestDiscovery(
  config: Config,
  parts: Pick<SearchOptions, "written" | "use"> & { readonly clock: Clock },
): Discovery {
  const { clock } = parts;
  const observer = createDiscoveryObserver(createMetrics().metrics, createLogger("silent"), clock);
  return new Discovery(config, {
    files: new FileWatcher(clock),
    random: Math.random,
    observer,
    shared: undefined,
    ...parts,
  });
}

/** What one search was told to use, and told. */
export interface SearchScene {
  readonly search: Search;
  /** What is used now: admin → URLs. */
  readonly used: () => Readonly<Record<string, readonly string[]>>;
  /** Aliases of what is used, in their order. */
  readonly names: () => string[];
  readonly lines: readonly Record<string, unknown>[];
  /** The state of an admin; undefined: it is not there. */
  readonly state: (admin: string) => string | undefined;
  readonly metrics: () => Promise<string>;
}

/** Begins searches by `keys`, a `discovery` block; they end after each test. */
export function useSearches(): (
  keys: Record<string, unknown>,
  parts?: Partial<Pick<SearchOptions, "shared" | "written" | "clock" | "use">>,
) => Promise<SearchScene> {
  const running: Search[] = [];
  afterEach(async () => {
    await Promise.all(running.splice(0).map((search) => search.close()));
  });
  return async (keys, parts = {}) => {
    const { discovery, limits } = testConfig({ discovery: { allowPrivate: true, ...keys } });
    const lines: Record<string, unknown>[] = [];
    const log = createLogger("info", {
      destination: { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
    });
    const { metrics, registry } = createMetrics();
    const clock = parts.clock ?? systemClock();
    let found: FoundRegistries = NOTHING_FOUND;
    const search = new Search(discovery!, limits, {
      clock,
      files: new FileWatcher(clock),
      random: Math.random,
      observer: createDiscoveryObserver(metrics, log, clock),
      shared: undefined,
      written: () => [],
      known: undefined,
      use: async (next) => void (found = next),
      ...parts,
    });
    running.push(search);
    await search.open();
    return {
      search,
      lines,
      used: () => Object.fromEntries(found.registries.map(({ admin, urls }) => [admin, urls])),
      names: () => found.registries.map(({ name }) => name),
      state: (admin) => search.report().registries.find((each) => each.admin === admin)?.state,
      metrics: () => registry.metrics(),
    };
  };
}

/** A party id with this name. */
export function partyOf(name: string): string {
  return `${name}::1220${Buffer.from(name).toString("hex").padEnd(64, "a").slice(0, 64)}`;
}

/** Registries as a list publishes them: one asset for each admin, in one network. */
export function listOf(registries: Readonly<Record<string, string | readonly string[]>>): string {
  const assets = Object.entries(registries).map(([admin, urls]) => ({
    instrumentId: { admin, id: "Token" },
    symbol: "T",
    registryURLs: [urls].flat().map((url) => `${url}/registry/`),
    linkToDAR: "https://docs.example/dars",
  }));
  return JSON.stringify({ MainNet: assets, DevNet: [] });
}

/** A server whose answers change while it runs. */
export interface Publisher {
  readonly url: string;
  /** How often it was asked. */
  readonly asked: number;
  /** What it answers from now on: a text with 200, or whatever this does. */
  publish(answer: string | ((response: ServerResponse, path: string) => void)): void;
}

/** Starts servers of lists and of name-service entries; they stop after each test. */
export function usePublishers(): (answer: string) => Promise<Publisher> {
  const closing: (() => void)[] = [];
  afterEach(() => {
    for (const close of closing.splice(0)) close();
  });
  return async (first) => {
    let answer: string | ((response: ServerResponse, path: string) => void) = first;
    let asked = 0;
    const listener: RequestListener = ({ url }, response) => {
      asked += 1;
      if (typeof answer === "function") return answer(response, url ?? "");
      response.writeHead(200, { "content-type": "application/json" }).end(answer);
    };
    const server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closing.push(() => {
      server.closeAllConnections();
      server.close();
    });
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      get asked() {
        return asked;
      },
      publish(next) {
        answer = next;
      },
    };
  };
}

/** What `GET /discovery` answers, to who has the operations token where there is one. */
export async function discoveryOf(
  { operations }: Pick<GatewayUnderTest, "operations">,
  token?: string,
): Promise<DiscoveryReport> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return (await (await fetch(`${operations}/discovery`, { headers })).json()) as DiscoveryReport;
}

/** The registry of an admin, as `GET /discovery` answers; undefined: it is not there. */
export async function registryOf(
  gateway: Pick<GatewayUnderTest, "operations">,
  admin: string,
): Promise<RegistryReport | undefined> {
  return (await discoveryOf(gateway)).registries.find((each) => each.admin === admin);
}

/** Resolves when the registry of an admin is in this state. */
export function untilState(
  gateway: Pick<GatewayUnderTest, "operations">,
  admin: string,
  state: RegistryReport["state"],
): Promise<void> {
  return until(async () => (await registryOf(gateway, admin))?.state === state);
}

/** Resolves when a source was asked twice more: what it said the first time has had its effect. */
export async function untilReadAgain(publisher: Publisher): Promise<void> {
  const { asked } = publisher;
  await until(() => publisher.asked >= asked + 2);
}

/** An operator's decision. */
export async function decide(
  { operations }: Pick<GatewayUnderTest, "operations">,
  admin: string,
  approve: boolean,
): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(`${operations}/discovery`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ admin, approve }),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}
