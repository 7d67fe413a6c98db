import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { loadConfig } from "../../src/config/load.ts";
import { createGateway, type Gateway } from "../../src/gateway/gateway.ts";
import { TestClock } from "./clock.ts";
import { atEnd } from "./closing.ts";
import { CANCEL, ENDPOINTS, PREFIX } from "./endpoints.ts";
import { type Answer, Site } from "./http.ts";
import { Registry } from "./registry.ts";
import { until } from "./until.ts";

/** Keys of a configuration; a registry among the upstreams stands for itself. */
export interface Values {
  readonly upstreams: readonly (Registry | object)[];
  readonly [key: string]: unknown;
}

export interface GatewayOptions {
  readonly clock?: Clock;
  /** The configuration's folder. */
  readonly folder?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Nothing is stored, so that every good request shows where it went. */
const CACHED = ENDPOINTS.filter(({ kind }) => kind === "metadata").map(({ operation }) => operation);
export const NOTHING_KEPT = {
  cache: { ttl: Object.fromEntries([...CACHED, "notFound"].map((each) => [each, "0s"])) },
};

/** One log line. */
export type Line = Readonly<Record<string, unknown>>;

/** The operations listener. */
export class OperationsSite extends Site {
  // oxlint-disable-next-line no-explicit-any
  async status(): Promise<any> {
    return (await this.get("/status")).json;
  }

  /** The part of the status about one upstream. */
  // oxlint-disable-next-line no-explicit-any
  async upstream(name: string): Promise<any> {
    const { upstreams } = (await this.status()) as { upstreams: { name: string }[] };
    return upstreams.find((each) => each.name === name);
  }

  purge(upstream?: string): Promise<Answer> {
    return this.post("/purge", JSON.stringify(upstream === undefined ? {} : { upstream }));
  }

  /** The sum of a metric's series whose labels hold all of `labels` (`upstream="amulet"`); 0 where there is none. */
  async metric(name: string, ...labels: string[]): Promise<number> {
    const { text } = await this.get("/metrics");
    let sum = 0;
    for (const line of text.split("\n")) {
      const [series = "", value = ""] = line.split(/ (?=[^ ]*$)/);
      const isNamed = series === name || series.startsWith(`${name}{`);
      if (isNamed && labels.every((label) => series.includes(label))) sum += Number(value);
    }
    return sum;
  }
}

/** A whole gateway in this process, over real sockets. */
export class TestGateway extends Site {
  readonly gateway: Gateway;
  readonly operations: OperationsSite;
  /** Log lines so far. */
  readonly lines: Line[];
  readonly folder: string;
  private readonly env: Readonly<Record<string, string>>;
  private stopping: Promise<void> | undefined;

  constructor(gateway: Gateway, lines: Line[], place: { folder: string; env: Record<string, string> }) {
    super(gateway.url);
    this.gateway = gateway;
    this.operations = new OperationsSite(gateway.operationsUrl);
    this.lines = lines;
    this.folder = place.folder;
    this.env = place.env;
  }

  /** The path of one registry's base URL, by party id or alias. */
  base(admin: string): string {
    return `${PREFIX}/${encodeURIComponent(admin)}`;
  }

  /** Log lines of requests. */
  get requestLines(): Line[] {
    return this.lines.filter(({ path, status }) => path !== undefined && status !== undefined);
  }

  reload(values: Values): void {
    this.gateway.reload(load(values, this.folder, this.env));
  }

  stop(options: { grace: boolean } = { grace: false }): Promise<void> {
    this.stopping ??= this.gateway.stop(options);
    return this.stopping;
  }
}

/** The loaded configuration of some keys; listeners on loopback and any free port unless the keys say otherwise. */
export function load(values: Values, folder = tmpdir(), env: Readonly<Record<string, string>> = {}) {
  return loadConfig({ values: withDefaults(values), folder }, env);
}

/** The keys as a file would have them: listeners on loopback, registries as their upstreams, nothing undefined. */
export function withDefaults({ upstreams, listen, operations, ...others }: Values): object {
  return JSON.parse(
    JSON.stringify({
      listen: { host: "127.0.0.1", port: 0, ...(listen as object | undefined) },
      operations: { host: "127.0.0.1", port: 0, ...(operations as object | undefined) },
      ...others,
      upstreams: upstreams.map((each) => (each instanceof Registry ? each.upstream() : each)),
    }),
  ) as object;
}

/** Starts a gateway, which ends with the test or, outside one, with the file. */
export async function startGateway(values: Values, options: GatewayOptions = {}): Promise<TestGateway> {
  const { clock = TestClock.running(), folder = tmpdir(), env = {} } = options;
  const lines: Line[] = [];
  const write = (text: string): void => void lines.push(JSON.parse(text) as Line);
  const gateway = await createGateway(load(values, folder, env), { clock, logTo: { write } });
  const running = new TestGateway(gateway, lines, { folder, env: { ...env } });
  atEnd(() => stopped(running, clock));
  return running;
}

/** What a shared gateway serves between two tests: nothing. */
const NOBODY: Values = {
  upstreams: [{ name: "nobody", admin: "nobody::1220", urls: ["http://127.0.0.1:9"], mode: "cache-only" }],
};

/**
 * One gateway for all tests of a file: each has it reload its own keys, which costs a tenth of a start. It comes purged, without
 * lines, a minute later, and with no upstream of the test before. Not for what is read at a start alone, nor for metrics.
 */
export function useGateway(clock: TestClock = TestClock.running()): (values: Values) => Promise<TestGateway> {
  let gateway: TestGateway | undefined;
  beforeAll(async () => {
    gateway = await startGateway(NOBODY, { clock });
  });
  return async (values) => {
    const shared = gateway!;
    shared.reload(NOBODY);
    clock.advance("61s");
    await shared.operations.purge();
    // It sheds for a moment where the test before kept this process busy.
    await until(async () => (await shared.post(CANCEL)).code !== "overloaded");
    shared.lines.length = 0;
    shared.reload(values);
    atEnd(() => shared.reload(NOBODY));
    return shared;
  };
}

/** Stops it; time is moved meanwhile, so that nobody waits for what a test left running. */
async function stopped(gateway: TestGateway, clock: Clock): Promise<void> {
  let isOver = false;
  const stopping = gateway.stop().finally(() => (isOver = true));
  if (clock instanceof TestClock) {
    await until(() => {
      clock.advance(1_000);
      return isOver;
    });
  }
  await stopping;
}

/** A folder that ends with the test or, outside one, with the file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "registry-gateway-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
