import type { Clock } from "./clock.ts";
import type { Config } from "./config/schema.ts";
import { readSecret } from "./config/secret.ts";
import { isLoopback } from "./config/warnings.ts";
import type { Logger } from "./observe/log.ts";
import { createMetrics, type Metrics } from "./observe/metrics.ts";
import type { LiveRegistry } from "./observe/metrics/live-registry.ts";
import { createRedisObserver } from "./observe/observers.ts";
import { reservePort, spawnWorker } from "./workers/worker-process.ts";
import type { LoopLoad } from "./http/overload.ts";
import { Primary } from "./workers/primary.ts";
import { Serving } from "./serving.ts";
import {
  isRedisConnected,
  coordinateByRedis,
  coordinateAlone,
  type Coordination,
} from "./coordination/coordination.ts";
import { sleep } from "./deadline.ts";
import type { WorkerParts } from "./workers/worker.ts";
import { createOperationsListener } from "./operations/listener.ts";
import type { OperationsAccess } from "./operations/access.ts";
import { Readiness } from "./operations/readiness.ts";
import { traceRedis } from "./observe/tracing/traced-observers.ts";
import { loadTracing, type Tracing } from "./observe/tracing/tracing.ts";
import type { Upstreams } from "./upstream/upstreams.ts";
import { openListener } from "./http/listening.ts";

export interface GatewayOptions {
  readonly config: Config;
  readonly version: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
  /** How the event loop does; where it is not measured, nothing is ever shed. */
  readonly loop?: () => LoopLoad;
  /** Told as soon as an upstream's admin is known. */
  readonly onAdminProved?: (upstream: string, admin: string) => void;
}

export interface StopOptions {
  /** Go on accepting for `shutdown.grace` first, so that balancers see the readiness probe fail. */
  readonly grace: boolean;
}

/** A gateway that can be started and stopped once. */
export interface Gateway {
  /** Listens. Rejects when a port cannot be had. */
  start(): Promise<{ readonly publicPort: number; readonly operationsPort: number }>;
  /**
   * Puts `config` to use for requests to come, but for keys that need a restart: they have to be as they were. Rejects
   * when a file that it names cannot be read; everything is as it was then.
   */
  reload(config: Config): Promise<void>;
  /** Drains and closes everything; answers that are under way are finished within `shutdown.timeout`. */
  stop(options: StopOptions): Promise<void>;
  /** The configuration in use. */
  readonly config: Config;
  readonly metrics: Metrics;
  /** What `/metrics` shows. */
  readonly registry: LiveRegistry;
  upstreams(): Upstreams;
}

/** A gateway of one process. What is built from what: this is the one place that knows all parts. */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const { config, version, log, clock } = options;
  const { metrics, registry } = createMetrics();
  begin(metrics, { version, clock });
  metrics.workers.set(1);
  const tracing = await loadTracing(config.tracing, { version, clock, log });
  const coordination = createCoordination(config, { clock, metrics, log, tracing });
  const serving = new Serving({ ...options, metrics, registry, coordination, tracing });
  const readiness = new Readiness({
    clock,
    isDraining: () => serving.isDraining,
    upstreams: () => serving.upstreams.status(),
    isRedisConnected: () => isRedisConnected(coordination.redisStatus()),
  });
  const operationsListener = createOperationsListener({
    surroundings: serving.surroundings,
    registry,
    readiness,
    explain: serving.explain,
    purge: (body) => serving.purge(body),
    status: () => serving.status(),
    access: operationsAccess(config),
  });

  return {
    metrics,
    registry,
    get config() {
      return serving.config;
    },
    upstreams: () => serving.upstreams,
    async start() {
      const operationsPort = await openListener(operationsListener, config.operations, "operations");
      const publicPort = await serving.start();
      log.info({ publicPort, operationsPort, upstreams: serving.upstreams.all.length, version }, "listening");
      return { publicPort, operationsPort };
    },
    reload: (next) => serving.reload(next),
    async stop({ grace }) {
      serving.announceDrain();
      if (grace) await sleep(serving.config.shutdown.grace, clock);
      await serving.drain();
      await operationsListener.close();
    },
  };
}

/** What the process shares with others: by Redis where one is configured, else nothing. */
function createCoordination(
  { redis }: Config,
  { clock, metrics, log, tracing }: { clock: Clock; metrics: Metrics; log: Logger; tracing: Tracing | undefined },
): Coordination {
  if (redis === undefined) return coordinateAlone(clock);
  const observer = createRedisObserver(metrics, log);
  return coordinateByRedis(redis, clock, tracing === undefined ? observer : traceRedis(observer, tracing));
}

/** A gateway of several processes: this one, which speaks for the others, which answer. */
export function createPrimary(
  options: Omit<GatewayOptions, "random" | "loop"> & {
    readonly workers: number;
  },
): Primary {
  const { config, version, clock } = options;
  const { metrics, registry } = createMetrics();
  begin(metrics, { version, clock });
  return new Primary({
    ...options,
    metrics,
    registry,
    reservePort,
    spawn: spawnWorker,
    createOperations: (parts) => createOperationsListener({ ...parts, access: operationsAccess(config) }),
  });
}

/** What answers clients in a worker. */
export async function createWorkerServing(
  { config, log, metrics, registry, shareByPrimary }: WorkerParts,
  options: Pick<GatewayOptions, "version" | "clock" | "random" | "loop">,
): Promise<Serving> {
  const { version, clock } = options;
  const tracing = await loadTracing(config.tracing, { version, clock, log });
  const coordination =
    config.redis === undefined ? await shareByPrimary() : createCoordination(config, { clock, metrics, log, tracing });
  return new Serving({ ...options, config, log, metrics, registry, coordination, tracing, isWorker: true });
}

/** What is so from the start. */
function begin(metrics: Metrics, { version, clock }: Pick<GatewayOptions, "version" | "clock">): void {
  metrics.buildInfo.set({ version }, 1);
  metrics.lastReloadGood.set(1);
  metrics.lastReloadTime.set(clock.wallNow() / 1000);
}

/** Who may ask the operations listener. */
function operationsAccess({ operations }: Config): OperationsAccess {
  const { host, hosts, token, tokenFile } = operations;
  return { isExposed: !isLoopback(host), token: tokenFile === undefined ? token : readSecret(tokenFile), hosts };
}
