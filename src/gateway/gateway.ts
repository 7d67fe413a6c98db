import { type Clock, type Duration, settledWithin, sleep } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import { FileWatcher } from "../config/watched-files.ts";
import { openListener } from "../connections/listening.ts";
import type { Logger } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { LiveRegistry } from "../observe/metrics/live-registry.ts";
import { loadPush } from "../observe/metrics/push.ts";
import type { OtlpPush } from "../observe/metrics/otlp.ts";
import { createInstruments } from "../observe/observers.ts";
import { createRedisObserver } from "../observe/redis-observer.ts";
import { traceRedis } from "../observe/tracing/traced-observers.ts";
import { loadTracing } from "../observe/tracing/tracing.ts";
import type { ReloadReport } from "../operations/config-report.ts";
import { coordinateAlone, coordinateByRedis, type Coordination } from "../sharing/coordination.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import { thisReplica } from "../version.ts";
import { drain } from "./drain.ts";
import { createOperatorParts, type OperatorParts } from "./operator-parts.ts";
import { type LoopLoad } from "./overload.ts";
import { createPublicParts, type PublicParts, type ServerOptions } from "./public-parts.ts";

/** How long a start waits for Redis, which may be away. */
const REDIS_TIMEOUT: Duration = 1_000;

/** Each part that is left when the process ends may take this long to close, */
const CLOSE_TIMEOUT: Duration = 2_000;

/** and where `shutdown.timeout` is over this long: leases, and what the replica said of itself, are to be taken back. */
const LATE_CLOSE_TIMEOUT: Duration = 300;

export interface GatewayOptions {
  readonly config: Config;
  readonly version: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
  /** How the event loop does; where it is not measured, nothing is ever shed. */
  readonly loop?: () => LoopLoad;
  /** Memory of the process, in bytes; where it is not given, the history does not show it. */
  readonly residentBytes?: () => number | undefined;
  /** Called as soon as an upstream's admin is known. */
  readonly onAdminProved?: (upstream: string, admin: string) => void;
  /** What became of the configuration file last, where it is read again. */
  readonly lastReload?: () => ReloadReport | undefined;
  /** The folder with the console's files, where it is another one than that of the build. */
  readonly console?: string;
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
  /**
   * Drains and closes everything within `shutdown.timeout`, or a moment for each part later where something hangs; with `grace`
   * it goes on accepting for `shutdown.grace` before.
   */
  stop(options: { readonly grace: boolean }): Promise<void>;
  /** The configuration in use. */
  readonly config: Config;
  /** Looks at every file that is read again. */
  readonly files: FileWatcher;
  readonly metrics: Metrics;
  /** What `/metrics` shows. */
  readonly registry: LiveRegistry;
  upstreams(): Upstreams;
}

/** A gateway: what it is made of, and how it starts, reloads and stops. */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const made = await createShared(options, () => open.snapshots.latest.config.cache.memory.maxObject);
  const open: PublicParts = createPublicParts(made);
  const operators = createOperatorParts(made, open);
  const { snapshots } = open;
  const { files, metrics, registry } = made;
  return {
    files,
    metrics,
    registry,
    get config() {
      return snapshots.latest.config;
    },
    upstreams: () => snapshots.latest.upstreams,
    start: () => start(made, open, operators),
    async reload(next) {
      await snapshots.reload(next);
      void operators.discovery.follow(next);
    },
    stop: ({ grace }) => stop(made, open, operators, grace),
  };
}

async function start(
  { config, log, version, coordination, push }: Shared,
  { snapshots, services, listener, overload, sample }: PublicParts,
  operators: OperatorParts,
): ReturnType<Gateway["start"]> {
  const operationsPort = await openListener(operators.listener, config.operations, "operations");
  await operators.discovery.open();
  // The very first request is to find what other replicas have cached, and no node is asked that operators cordoned
  // or spared.
  await coordination.whenReady(REDIS_TIMEOUT);
  snapshots.start();
  const publicPort = await openListener(listener, config.listen, "public");
  services.backgroundReader.start();
  overload.start();
  operators.history.keep(sample);
  push?.start();
  operators.health.start();
  operators.discovery.start();
  const upstreams = snapshots.latest.upstreams.all.length;
  log.info({ publicPort, operationsPort, upstreams, version }, "listening");
  return { publicPort, operationsPort };
}

async function stop(
  { clock, coordination, tracing, push }: Shared,
  { snapshots, services, listener, connections, inFlight, certificate, overload }: PublicParts,
  operators: OperatorParts,
  grace: boolean,
): Promise<void> {
  const { shutdown } = snapshots.latest.config;
  const end = clock.now() + (grace ? shutdown.grace : 0) + shutdown.timeout;
  const left = () => Math.max(0, end - clock.now());
  const timeToClose = () => Math.min(left() + LATE_CLOSE_TIMEOUT, CLOSE_TIMEOUT);
  const close = (closing: Promise<unknown>) => settledWithin(closing, timeToClose(), clock);
  // Readiness falls, and every answer closes its connection, so that clients go elsewhere.
  inFlight.isDraining = true;
  const discovery = operators.discovery.close();
  if (grace) await sleep(shutdown.grace, clock);
  certificate?.close();
  services.changeStreams.close();
  await drain({ listener, connections, inFlight, clock, timeout: left() });
  overload.stop();
  await close(discovery);
  await close(services.backgroundReader.stop());
  await services.cache.drain(left() + LATE_CLOSE_TIMEOUT);
  await close(snapshots.stop());
  services.bodies.close();
  await close(coordination.coordinator.close());
  if (tracing !== undefined) await close(tracing.close());
  if (push !== undefined) await close(push.close());
  operators.history.stop();
  operators.health.stop();
  operators.access.operators.close();
  await close(operators.listener.close());
}

interface Shared extends ServerOptions {
  readonly push: OtlpPush | undefined;
}

/** What both sides work with. */
async function createShared(options: GatewayOptions, largestBody: () => number): Promise<Shared> {
  const { config, version, log, clock } = options;
  const files = new FileWatcher(clock, (file) =>
    log.warn({ file }, "file has no name any more: changes of it are not seen"),
  );
  const { metrics, registry } = createInstruments(version, { exemplars: config.tracing.endpoint !== undefined });
  const tracing = await loadTracing(config.tracing, { version, clock, log });
  const push = await loadPush(config.metrics, { registry, version, instance: thisReplica.name, clock, log });
  const coordination = await createCoordination(config, { clock, files, metrics, log, tracing }, largestBody);
  return { ...options, files, metrics, registry, tracing, push, coordination };
}
/** What the process shares with others: by Redis where one is configured, else nothing. */
async function createCoordination(
  { redis }: Config,
  { clock, files, metrics, log, tracing }: Pick<ServerOptions, "clock" | "files" | "metrics" | "log" | "tracing">,
  largestBody: () => number,
): Promise<Coordination> {
  if (redis === undefined) return coordinateAlone(clock);
  const observer = createRedisObserver(metrics, log);
  const traced = tracing === undefined ? observer : traceRedis(observer, tracing);
  return coordinateByRedis(redis, { clock, files, observer: traced, largestBody });
}
