import { availableParallelism } from "node:os";
import { isDeepStrictEqual } from "node:util";
import type { FastifyInstance } from "fastify";
import { type Clock, type Duration, sleep } from "../clock.ts";
import { diffConfig } from "../config/diff.ts";
import type { Config, UpstreamConfig } from "../config/schema.ts";
import { openListener } from "../http/listening.ts";
import { sampleOf } from "../observe/history-sample.ts";
import type { Discovery } from "../discovery/discovery.ts";
import type { SearchOptions } from "../discovery/search.ts";
import type { Logger } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { LiveRegistry } from "../observe/metrics/bound.ts";
import type { OperationsOptions } from "../operations/listener.ts";
import { type FoundRegistries, NOTHING_FOUND, upstreamsOf } from "../upstream/found.ts";
import { WorkerMetrics } from "./metrics.ts";
import { WorkerOperations } from "./operations.ts";
import type { Boot } from "./protocol.ts";
import { Unanswered } from "./rpc.ts";
import { SharedEntries } from "./shared-entries.ts";
import { SharedState } from "./shared-state.ts";
import { Supervisor } from "./supervisor.ts";
import type { Worker, WorkerProcess } from "./worker-process.ts";

export interface PrimaryOptions {
  readonly config: Config;
  readonly workers: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  readonly metrics: Metrics;
  readonly registry: LiveRegistry;
  /** Memory of this process, in bytes. */
  readonly residentBytes?: () => number;
  /** Finds out the public port that workers can share; rejects where it cannot be had. */
  readonly reservePort: (listen: Config["listen"]) => Promise<number>;
  readonly spawn: () => WorkerProcess;
  readonly createDiscovery: (parts: Pick<SearchOptions, "written" | "use">) => Discovery;
  readonly createOperations: (options: Omit<OperationsOptions, "access" | "console" | "lastReload">) => FastifyInstance;
}

/** New pools and a new listener are made, files read. */
const RELOAD_TIMEOUT: Duration = 10_000;

/** What a worker may take beyond `shutdown.timeout` to close everything, before it is ended. */
const CLOSE_ALLOWANCE: Duration = 15_000;

/**
 * The process that speaks for its workers: it has the operations listener, the configuration, and what the workers
 * share; clients' requests never pass through it.
 */
export class Primary {
  private readonly options: PrimaryOptions;
  private readonly state: SharedState;
  private readonly entries: SharedEntries;
  private readonly supervisor: Supervisor;
  private readonly workerMetrics: WorkerMetrics;
  private readonly operations: WorkerOperations;
  private readonly listener: FastifyInstance;
  private readonly left = new WeakMap<Worker, () => void>();
  private readonly discovery: Discovery;
  private current: Config;
  private found = NOTHING_FOUND;
  /** Reloads and what was found are put to use one after the other: neither loses the other's change. */
  private turn: Promise<unknown> = Promise.resolve();
  private isDraining = false;

  constructor(options: PrimaryOptions) {
    const { config, workers, clock, log, version, metrics, registry } = options;
    this.options = options;
    this.current = config;
    this.state = new SharedState(clock);
    this.entries = new SharedEntries(memoryShare(config, workers), clock);
    this.workerMetrics = new WorkerMetrics(registry);
    registry.onRead(() => {
      metrics.workers.set(this.supervisor.listening.length);
      metrics.cacheBytes.set(this.entries.bytes);
      metrics.cacheMaxBytes.set(memoryShare(this.current, workers));
    });
    this.supervisor = new Supervisor({
      clock,
      log,
      count: workers,
      spawn: options.spawn,
      adopt: (worker) => this.adopt(worker),
      boot: (worker) => this.boot(worker),
      lost: (worker, unasked) => this.lose(worker, unasked),
    });
    this.operations = new WorkerOperations({
      supervisor: this.supervisor,
      metrics: this.workerMetrics,
      clock,
      isDraining: () => this.isDraining,
      sample: () =>
        sampleOf(metrics, {
          residentBytes: options.residentBytes?.(),
          cacheBytes: this.entries.bytes,
          loopDelay: 0,
        }),
    });
    this.discovery = options.createDiscovery({
      written: () => this.current.upstreams,
      use: (found) => this.use(found),
    });
    this.listener = options.createOperations({
      clock,
      log,
      metrics,
      version,
      registry: { contentType: this.workerMetrics.contentType, metrics: () => this.operations.readMetrics() },
      readiness: this.operations,
      explain: (path) => this.operations.explain(path),
      clients: () => this.operations.clients(),
      cache: (preview) => this.operations.cache(preview),
      history: (since) => this.operations.historySince(since),
      requests: (filter) => this.operations.requests(filter),
      purge: (body) => this.operations.purge(body),
      act: (request) => this.operations.act(request),
      discovery: this.discovery,
      inForce: () => this.operations.inForce(),
      status: () => this.operations.status(),
      config: () => this.current,
    });
  }

  /** In use by all workers. */
  get config(): Config {
    return this.current;
  }

  get metrics(): Metrics {
    return this.options.metrics;
  }

  /** Of this process alone; `/metrics` shows the workers' as well. */
  get registry(): LiveRegistry {
    return this.options.registry;
  }

  /** Resolves when all workers answer on the public port; rejects when one cannot begin, or a port cannot be had. */
  async start(): Promise<{ readonly publicPort: number; readonly operationsPort: number }> {
    const { config, log, version, workers } = this.options;
    const port = await this.options.reservePort(config.listen);
    this.current = { ...config, listen: { ...config.listen, port } };
    await this.discovery.open();
    const publicPort = await this.supervisor.start();
    const operationsPort = await openListener(this.listener, config.operations, "operations");
    this.operations.begin();
    this.discovery.start();
    const upstreams = config.upstreams.filter(({ enabled }) => enabled).length;
    log.info({ publicPort, operationsPort, upstreams, workers, version }, "listening");
    return { publicPort, operationsPort };
  }

  /** Lets every worker use `next`: all of them, or none. Rejects when it cannot be used. */
  async reload(next: Config): Promise<void> {
    await this.inTurn(() => this.apply(next, this.found));
    void this.discovery.follow(next);
  }

  /** Lets every worker use what was found, as with a reload. */
  use(found: FoundRegistries): Promise<void> {
    return this.inTurn(async () => {
      if (!isDeepStrictEqual(found, this.found)) await this.apply(this.current, found);
    });
  }

  private inTurn(work: () => Promise<void>): Promise<void> {
    const result = this.turn.then(work);
    this.turn = result.catch(() => undefined);
    return result;
  }

  private async apply(next: Config, found: FoundRegistries): Promise<void> {
    const { log, workers } = this.options;
    const payload = { config: workerConfig(next, workers), found };
    let isAccepted = false;
    const told = new Set<Worker>();
    // A worker that begins meanwhile begins with the former one; one that begins later is given `next`.
    const findUntold = () => this.supervisor.all.find((worker) => worker.hasBegun && !told.has(worker));
    for (let worker = findUntold(); worker !== undefined; worker = findUntold()) {
      told.add(worker);
      try {
        await worker.peer.ask("reload", payload, RELOAD_TIMEOUT);
        isAccepted = true;
      } catch (error) {
        // What the first one refuses, they all would. Later ones must not be left behind: they are replaced.
        if (!isAccepted && !(error instanceof Unanswered)) throw error;
        this.supervisor.kill(worker);
      }
    }
    const changed = diffConfig(this.current, next);
    this.current = next;
    this.found = found;
    this.entries.resize(memoryShare(next, workers));
    if (changed.some(({ path }) => path === "log.level")) log.level = next.log.level;
    this.workerMetrics.forgetUpstreams(
      new Set([...next.upstreams, ...upstreamsOf(next, found)].map(({ name }) => name)),
    );
  }

  /** Drains all workers at once, and closes everything. */
  async stop({ grace }: { readonly grace: boolean }): Promise<void> {
    const { clock } = this.options;
    this.isDraining = true;
    for (const { peer } of this.supervisor.all) peer.tell("announceDrain", undefined);
    await this.discovery.close();
    if (grace) await sleep(this.current.shutdown.grace, clock);
    await this.supervisor.stop(this.current.shutdown.timeout + CLOSE_ALLOWANCE);
    await this.state.close();
    this.operations.end();
    await this.listener.close();
  }

  private adopt(worker: Worker): void {
    const { peer } = worker;
    const left = this.state.serve(peer, () => this.supervisor.kill(worker));
    this.left.set(worker, left);
    peer.answer("getEntries", (key) => this.entries.get(key));
    peer.answer("setEntry", (write) => {
      this.entries.set(write);
      return undefined;
    });
    peer.answer("deleteEntries", (key) => {
      this.entries.delete(key);
      return undefined;
    });
  }

  private boot(worker: Worker): Boot {
    if (this.isDraining) worker.peer.tell("announceDrain", undefined);
    return { id: worker.id, config: workerConfig(this.current, this.options.workers), found: this.found };
  }

  private lose(worker: Worker, unasked: "crashed" | "hung" | undefined): void {
    this.left.get(worker)?.();
    this.operations.forget(worker);
    if (unasked !== undefined) this.options.metrics.workerEnds.inc({ reason: unasked });
    void this.workerMetrics.retire(worker.id);
  }
}

/** How many workers there are to be; 1: none, the one process answers by itself. */
export function workerCount({ workers }: Config): number {
  return workers === "auto" ? availableParallelism() : workers;
}

/** The shared entries of the primary count like those of one worker more. */
function memoryShare(config: Config, workers: number): number {
  return Math.floor(config.cache.memory.maxBytes / (workers + 1));
}

/** What one of so many workers may use of what the configuration grants to the machine. */
function workerConfig(config: Config, workers: number): Config {
  const part = (whole: number): number => Math.ceil(whole / workers);
  const share = <Keys extends Pick<UpstreamConfig, "concurrency">>(keys: Keys): Keys => ({
    ...keys,
    concurrency: { max: part(keys.concurrency.max), queue: part(keys.concurrency.queue) },
  });
  return {
    ...config,
    listen: { ...config.listen, maxConnections: part(config.listen.maxConnections) },
    cache: { ...config.cache, memory: { ...config.cache.memory, maxBytes: memoryShare(config, workers) } },
    upstreams: config.upstreams.map(share),
    ...(config.discovery !== undefined && {
      discovery: { ...config.discovery, defaults: share(config.discovery.defaults) },
    }),
  };
}
