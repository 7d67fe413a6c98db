import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { HttpCache } from "./cache/http-cache.ts";
import { MemoryStore } from "./cache/memory-store.ts";
import type { Clock } from "./clock.ts";
import type { Config } from "./config/schema.ts";
import { readSecret } from "./config/secret.ts";
import { isLoopback } from "./config/warnings.ts";
import type { Coordinator } from "./coordinator/coordinator.ts";
import { LocalCoordinator } from "./coordinator/local.ts";
import type { Logger } from "./log.ts";
import { RegistryMetadata } from "./metadata/registry-metadata.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { announce } from "./metrics/announcement.ts";
import type { LiveRegistry } from "./metrics/live-registry.ts";
import { refreshGauges } from "./metrics/refresh.ts";
import { Traffic } from "./metrics/traffic.ts";
import { createCacheObserver, createMetadataObserver, createUpstreamObserver } from "./observers.ts";
import { createCors } from "./routes/cors.ts";
import { createExplain } from "./routes/explain.ts";
import { HitMemo } from "./routes/hit.ts";
import { createOperationsListener } from "./routes/operations.ts";
import { createPublicListener } from "./routes/public.ts";
import { Readiness } from "./routes/readiness.ts";
import type { Runtime, Surroundings } from "./routes/runtime.ts";
import { Upstreams } from "./upstream/upstreams.ts";

export interface GatewayOptions {
  readonly config: Config;
  readonly version: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
}

export interface StopOptions {
  /** Go on accepting for `shutdown.grace` first, so that balancers see the readiness probe fail. */
  readonly grace: boolean;
}

/** A gateway that can be started and stopped once. */
export interface Gateway {
  /** Listens. Rejects when a port cannot be had. */
  start(): Promise<{ readonly publicPort: number; readonly operationsPort: number }>;
  /** Drains and closes everything; answers that are under way are finished within `shutdown.timeout`. */
  stop(options: StopOptions): Promise<void>;
  readonly metrics: Metrics;
  /** What `/metrics` shows. */
  readonly registry: LiveRegistry;
  upstreams(): Upstreams;
}

/** What is built from what: the one place that knows all parts. */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const { config, version, log, clock, random } = options;
  const { metrics, registry } = createMetrics();
  metrics.buildInfo.set({ version }, 1);
  metrics.lastReloadGood.set(1);
  metrics.lastReloadTime.set(clock.wallNow() / 1000);
  const coordinator: Coordinator = new LocalCoordinator({ clock });
  const cacheObserver = createCacheObserver(metrics);
  const memory = new MemoryStore({ ...config.cache.memory, observer: cacheObserver });
  const cache = new HttpCache({ memory, coordinator, clock, random, observer: cacheObserver });
  const upstreams = new Upstreams(config.upstreams, {
    limits: config.limits,
    coordinator,
    clock,
    random,
    observer: createUpstreamObserver(metrics, log, (name, url) => {
      const upstream = config.upstreams.find((each) => each.name === name);
      return upstream?.urls.indexOf(url) ?? -1;
    }),
  });

  announce(
    registry,
    upstreams.all.map(({ name }) => name),
  );
  const traffic = new Traffic(metrics);
  registry.onRead(() =>
    refreshGauges(metrics, {
      upstreams: runtime.upstreams.all,
      memory,
      maxBytes: config.cache.memory.maxBytes,
      traffic,
    }),
  );

  let isDraining = false;
  const runtime = createRuntime(config, { upstreams, cache, coordinator, metrics });
  const surroundings: Surroundings = {
    clock,
    random,
    log,
    metrics,
    traffic,
    version,
    isDraining: () => isDraining,
    runtime: () => runtime,
  };
  const publicListener = createPublicListener(surroundings, config, cache);
  const operationsListener = createOperationsListener({
    surroundings,
    coordinator,
    registry,
    readiness: new Readiness({
      clock,
      isDraining: () => isDraining,
      upstreams: () => runtime.upstreams.status(),
      isRedisConnected: () => true,
    }),
    explain: createExplain(surroundings, cache),
    redisStatus: () => ({ configured: false }),
    isExposed: !isLoopback(config.operations.host),
    token: tokenOf(config),
  });

  return {
    metrics,
    registry,
    upstreams: () => runtime.upstreams,
    async start() {
      upstreams.start();
      const operationsPort = await listen(operationsListener, config.operations);
      const publicPort = await listen(publicListener, config.listen);
      log.info({ publicPort, operationsPort, upstreams: upstreams.all.length, version }, "listening");
      return { publicPort, operationsPort };
    },
    async stop({ grace }) {
      isDraining = true;
      if (grace) await elapsed(clock, config.shutdown.grace);
      await drain(publicListener, clock, config.shutdown.timeout);
      await cache.drain();
      await upstreams.close();
      await coordinator.close();
      await operationsListener.close();
    },
  };
}

interface Parts {
  readonly upstreams: Upstreams;
  readonly cache: HttpCache;
  readonly coordinator: Coordinator;
  readonly metrics: Metrics;
}

function createRuntime(config: Config, { upstreams, cache, coordinator, metrics }: Parts): Runtime {
  const metadata = upstreams.all.map((upstream) => {
    const registry = new RegistryMetadata({
      upstream,
      cache,
      coordinator,
      observer: createMetadataObserver(metrics),
    });
    return [upstream, registry] as const;
  });
  return {
    config,
    upstreams,
    metadata: new Map(metadata),
    cors: createCors(config.cors.origins, config.routing.adminHeader),
    hits: new HitMemo(),
  };
}

function tokenOf({ operations }: Config): string | undefined {
  return operations.tokenFile === undefined ? operations.token : readSecret(operations.tokenFile);
}

async function listen(listener: FastifyInstance, { host, port }: { host: string; port: number }): Promise<number> {
  await listener.listen({ host, port });
  return (listener.server.address() as AddressInfo).port;
}

function elapsed(clock: Clock, duration: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(duration, resolve);
  });
}

/** Closes the listener; what still runs after `timeout` is cut off. */
async function drain(listener: FastifyInstance, clock: Clock, timeout: number): Promise<void> {
  const cancel = clock.after(timeout, () => listener.server.closeAllConnections());
  await listener.close();
  cancel();
}
