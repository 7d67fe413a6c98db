import { stringify } from "yaml";
import { createGateway, type Gateway } from "../../src/gateway/gateway.ts";
import { type Clock, systemClock } from "../../src/clock.ts";
import { parseConfig } from "../../src/config/parse.ts";
import type { Config } from "../../src/config/schema.ts";
import { createLogger } from "../../src/observe/log.ts";
import { forEachCached } from "../../src/spec/operations.ts";

export interface GatewayUnderTest {
  readonly gateway: Gateway;
  /** Base URL of the public listener, without a trailing slash. */
  readonly url: string;
  readonly operations: string;
  /** Log lines so far, parsed. */
  readonly lines: readonly Record<string, unknown>[];
  /** The base URL of one registry, by party id or alias. */
  registrar(admin: string): string;
  stop(): Promise<void>;
}

export interface GatewayTestOptions {
  readonly clock?: Clock;
  readonly random?: () => number;
}

/** Keys with which nothing is stored. */
export const NOTHING_KEPT = { cache: { ttl: { ...forEachCached(() => "0s"), notFound: "0s" } } };

/** A configuration from the keys of a file; listeners on loopback and any free port unless the keys say otherwise. */
export function testConfig(keys: Record<string, unknown>): Config {
  const text = stringify({
    listen: { host: "127.0.0.1", port: 0 },
    operations: { host: "127.0.0.1", port: 0 },
    ...keys,
  });
  const { config, problems } = parseConfig({ text, file: "test.yaml", env: {} });
  if (config === undefined) throw new Error(`bad test configuration: ${JSON.stringify(problems)}`);
  return config;
}

/** Starts a whole gateway in this process, over real sockets. */
export async function startGateway(
  keys: Record<string, unknown>,
  options: GatewayTestOptions = {},
): Promise<GatewayUnderTest> {
  const config = testConfig(keys);
  const lines: Record<string, unknown>[] = [];
  const gateway = await createGateway({
    config,
    log: createLogger(config.log.level, {
      destination: { write: (line: string) => void lines.push(JSON.parse(line)) },
    }),
    clock: options.clock ?? systemClock(),
    random: options.random ?? Math.random,
    version: "0.0.0-test",
  });
  const { publicPort, operationsPort } = await gateway.start();
  const url = `${config.listen.tls === undefined ? "http" : "https"}://127.0.0.1:${publicPort}`;
  return {
    gateway,
    url,
    operations: `http://127.0.0.1:${operationsPort}`,
    lines,
    registrar: (admin) => `${url}${config.routing.prefix}/${encodeURIComponent(admin)}`,
    stop: () => gateway.stop({ grace: false }),
  };
}
