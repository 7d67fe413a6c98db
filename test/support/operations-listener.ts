import type { FastifyInstance } from "fastify";
import { afterEach } from "vitest";
import { FileWatcher } from "../../src/config/watched-files.ts";
import { systemClock } from "../../src/clock.ts";
import { History } from "../../src/observe/history.ts";
import { createLogger } from "../../src/observe/log.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import type { Config } from "../../src/config/schema.ts";
import type { OperationsAccess } from "../../src/operations/access.ts";
import { Operators } from "../../src/operations/operators.ts";
import { createOperationsListener, type OperationsOptions } from "../../src/operations/listener.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { testConfig } from "./gateway.ts";

/** Who may ask, with tokens as the configuration names them. */
type Access = Partial<
  Omit<OperationsAccess, "operators"> & Pick<Config["operations"], "token" | "tokenFile" | "tokens">
>;

/** Where it listens for tests, and what is otherwise than usual in it. */
type Start = (
  access: Access,
  options?: Partial<OperationsOptions> & { readonly files?: FileWatcher },
) => Promise<string>;

/**
 * Starts the operations listener alone, with nothing behind it; `isExposed` is as if other machines could reach it, and
 * none can. Resolves with its base URL; the test's end closes it.
 */
export function useOperationsListener(): Start {
  const listeners: FastifyInstance[] = [];
  afterEach(async () => {
    await Promise.all(listeners.splice(0).map((listener) => listener.close()));
  });
  return async function start(access, { files: watcher, ...options } = {}) {
    const { metrics, registry } = createMetrics();
    const { tokens = [], ...others } = access;
    const clock = options.clock ?? systemClock();
    const log = createLogger("silent");
    const files = watcher ?? new FileWatcher(clock);
    const operators = new Operators({ ...access, tokens }, { files, log });
    const listener = createOperationsListener({
      clock,
      log,
      metrics,
      version: "0.0.0-test",
      registry,
      readiness: { report: () => ({ ready: true, upstreams: [] }) },
      cache: async () => ({ groups: [], purged: { entries: 0, bytes: 0 }, selected: null, behind: null }),
      history: (since) => new History(systemClock()).report(since),
      requests: () => ({ requests: [], cursor: "", missed: 0 }),
      clients: () => ({ tiers: {}, clients: [] }),
      explain: async () => ({ upstream: "amulet", admin: undefined, operation: "info", cached: false }),
      purge: async () => ({ purged: {}, reach: "replica" }),
      act: () => Promise.reject(new Error("nothing is done here")),
      discovery: {
        report: () => ({ sources: [], registries: [], pinFileError: null }),
        isShared: () => true,
        decide: () => Promise.reject(new Error("nothing is decided here")),
      },
      replicas: { report: async () => ({ replicas: [], unknown: 0, differences: [] }) },
      shared: localCoordinator(clock),
      isWritten: () => false,
      health: async () => ({ severity: null, sentence: "No registry is configured.", findings: [], more: 0 }),
      status: () => ({ inForce: [], upstreams: [] }),
      config: () => testConfig({ upstreams: [{ name: "amulet", urls: ["http://127.0.0.1:1"] }] }),
      console: "/nowhere",
      access: { isExposed: false, operators, hosts: [], isReadonly: false, ...others },
      ...options,
    });
    listeners.push(listener);
    return listener.listen({ host: "127.0.0.1", port: 0 });
  };
}
