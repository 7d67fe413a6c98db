import type { FastifyInstance } from "fastify";
import type { Clock, Duration } from "../clock.ts";
import { diffConfig } from "../config/diff.ts";
import type { Config } from "../config/schema.ts";
import { ClusterHub } from "./hub.ts";
import { Unanswered } from "./peer.ts";
import type { Logger } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { LiveRegistry } from "../observe/metrics/live-registry.ts";
import type { OperationsOptions } from "../operations/listener.ts";
import { EntryShelf } from "./entry-shelf.ts";
import { Fleet } from "./fleet.ts";
import { FleetMetrics } from "./fleet-metrics.ts";
import { Supervisor } from "./supervisor.ts";
import { sleep } from "../deadline.ts";
import type { Worker, WorkerProcess } from "./worker-process.ts";
import { memoryShare, workerConfig } from "./worker-share.ts";
import type { Boot } from "./worker-topics.ts";
import { openListener } from "../http/listening.ts";

export interface PrimaryOptions {
  readonly config: Config;
  readonly workers: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  readonly metrics: Metrics;
  readonly registry: LiveRegistry;
  /** Finds out the public port that workers can share; rejects where it cannot be had. */
  readonly reservePort: (listen: Config["listen"]) => Promise<number>;
  readonly spawn: () => WorkerProcess;
  readonly createOperations: (options: Omit<OperationsOptions, "access">) => FastifyInstance;
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
  private readonly hub: ClusterHub;
  private readonly shelf: EntryShelf;
  private readonly supervisor: Supervisor;
  private readonly fleetMetrics: FleetMetrics;
  private readonly fleet: Fleet;
  private readonly operations: FastifyInstance;
  private readonly left = new WeakMap<Worker, () => void>();
  private current: Config;
  private isDraining = false;

  constructor(options: PrimaryOptions) {
    const { config, workers, clock, log, version, metrics, registry } = options;
    this.options = options;
    this.current = config;
    this.hub = new ClusterHub(clock);
    this.shelf = new EntryShelf(memoryShare(config, workers), clock);
    this.fleetMetrics = new FleetMetrics(registry);
    registry.onRead(() => {
      metrics.workers.set(this.supervisor.listening.length);
      metrics.cacheBytes.set(this.shelf.bytes);
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
    this.fleet = new Fleet({
      supervisor: this.supervisor,
      metrics: this.fleetMetrics,
      clock,
      isDraining: () => this.isDraining,
    });
    this.operations = options.createOperations({
      surroundings: { clock, log, metrics, version },
      registry: { contentType: this.fleetMetrics.contentType, metrics: () => this.fleet.readMetrics() },
      readiness: this.fleet,
      explain: (path) => this.fleet.explain(path),
      purge: (body) => this.fleet.purge(body),
      status: () => this.fleet.status(),
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
    const publicPort = await this.supervisor.start();
    const operationsPort = await openListener(this.operations, config.operations, "operations");
    this.fleet.keepMetrics();
    const upstreams = config.upstreams.filter(({ enabled }) => enabled).length;
    log.info({ publicPort, operationsPort, upstreams, workers, version }, "listening");
    return { publicPort, operationsPort };
  }

  /** Lets every worker use `next`: all of them, or none. Rejects when it cannot be used. */
  async reload(next: Config): Promise<void> {
    const { log, workers } = this.options;
    const config = workerConfig(next, workers);
    let isAccepted = false;
    const told = new Set<Worker>();
    // One that begins meanwhile begins with the former one; who begins later is given `next`.
    const findUntold = () => this.supervisor.all.find((worker) => worker.hasBegun && !told.has(worker));
    for (let worker = findUntold(); worker !== undefined; worker = findUntold()) {
      told.add(worker);
      try {
        await worker.peer.ask("reload", config, RELOAD_TIMEOUT);
        isAccepted = true;
      } catch (error) {
        // What the first one refuses, they all would. Later ones must not be left behind: they are replaced.
        if (!isAccepted && !(error instanceof Unanswered)) throw error;
        this.supervisor.kill(worker);
      }
    }
    const changed = diffConfig(this.current, next);
    this.current = next;
    this.shelf.resize(memoryShare(next, workers));
    if (changed.some(({ path }) => path === "log.level")) log.level = next.log.level;
    this.fleetMetrics.forgetUpstreams(new Set(next.upstreams.map(({ name }) => name)));
  }

  /** Drains all workers at once, and closes everything. */
  async stop({ grace }: { readonly grace: boolean }): Promise<void> {
    const { clock } = this.options;
    this.isDraining = true;
    for (const { peer } of this.supervisor.all) peer.tell("announceDrain", undefined);
    if (grace) await sleep(this.current.shutdown.grace, clock);
    await this.supervisor.stop(this.current.shutdown.timeout + CLOSE_ALLOWANCE);
    this.hub.close();
    await this.operations.close();
  }

  private adopt(worker: Worker): void {
    const { peer } = worker;
    const left = this.hub.serve(peer, () => this.supervisor.kill(worker));
    this.left.set(worker, left);
    peer.answer("shelf", (key) => this.shelf.get(key));
    peer.answer("shelve", (write) => {
      this.shelf.set(write);
      return undefined;
    });
    peer.answer("unshelve", (key) => {
      this.shelf.delete(key);
      return undefined;
    });
  }

  private boot(worker: Worker): Boot {
    if (this.isDraining) worker.peer.tell("announceDrain", undefined);
    return { id: worker.id, config: workerConfig(this.current, this.options.workers) };
  }

  private lose(worker: Worker, unasked: "crashed" | "hung" | undefined): void {
    this.left.get(worker)?.();
    if (unasked !== undefined) this.options.metrics.workerEnds.inc({ reason: unasked });
    void this.fleetMetrics.retire(worker.id);
  }
}
