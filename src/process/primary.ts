import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Clock, Duration } from "../clock.ts";
import { diffConfig } from "../config/diff.ts";
import type { Config } from "../config/schema.ts";
import { ClusterHub } from "../coordinator/cluster-hub.ts";
import { Unanswered } from "../coordinator/cluster-peer.ts";
import type { PurgeReach } from "../coordinator/coordinator.ts";
import { GatewayError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { LiveRegistry } from "../metrics/live-registry.ts";
import type { PathExplanation } from "../routes/explain.ts";
import type { OperationsOptions } from "../routes/operations.ts";
import type { PurgeResult } from "../routes/purge.ts";
import { Readiness, type ReadinessReport } from "../routes/readiness.ts";
import { EntryShelf } from "./entry-shelf.ts";
import { FleetMetrics } from "./fleet-metrics.ts";
import { mergeExplanations, mergeRedis, mergeUpstreams } from "./fleet-status.ts";
import { Supervisor, type Worker, type WorkerProcess } from "./supervisor.ts";
import { elapsed } from "./waiting.ts";
import { memoryShare, workerConfig } from "./worker-share.ts";
import type { WorkerState } from "./worker-topics.ts";

export interface PrimaryOptions {
  /** With the public port that workers are to share. */
  readonly config: Config;
  readonly workers: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  readonly metrics: Metrics;
  readonly registry: LiveRegistry;
  readonly spawn: () => WorkerProcess;
  /** All workers are gone for good. */
  readonly onStopped: () => void;
  readonly createOperations: (options: Omit<OperationsOptions, "isExposed" | "token">) => FastifyInstance;
}

/** A worker does little for an answer to the operator; one that is busy may take its time. */
const REPLY_TIMEOUT: Duration = 2_000;

/** Longer than a purge waits for a worker that hangs. */
const PURGE_TIMEOUT: Duration = 6_000;

/** New pools and a new listener are made, files read. */
const RELOAD_TIMEOUT: Duration = 10_000;

/** A scrape waits no longer for one worker; its last numbers stand in. */
const METRICS_TIMEOUT: Duration = 1_000;

/** What a worker had counted since is lost when it crashes. */
const METRICS_EVERY: Duration = 5_000;

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
  private readonly readiness: Readiness;
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
      lost: (worker, unasked) => this.lose(worker, unasked),
    });
    this.readiness = new Readiness({
      clock,
      isDraining: () => this.isDraining,
      upstreams: () => mergeUpstreams(this.states()),
      isRedisConnected: () => mergeRedis(this.states()).state !== "away",
    });
    this.operations = options.createOperations({
      surroundings: { clock, log, metrics, version },
      registry: { contentType: this.fleetMetrics.contentType, metrics: () => this.readMetrics() },
      readiness: { report: () => this.report() },
      explain: (path) => this.explain(path),
      purge: (body) => this.purge(body),
      status: () => this.status(),
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
    const publicPort = await this.supervisor.start();
    const { host, port } = config.operations;
    await this.operations.listen({ host, port });
    const operationsPort = (this.operations.server.address() as AddressInfo).port;
    this.keepMetrics();
    const upstreams = config.upstreams.filter(({ enabled }) => enabled).length;
    log.info({ publicPort, operationsPort, upstreams, workers, version }, "listening");
    return { publicPort, operationsPort };
  }

  /** Lets every worker use `next`: all of them, or none. Rejects when it cannot be used. */
  async reload(next: Config): Promise<void> {
    const { log, workers } = this.options;
    const config = workerConfig(next, workers);
    let isAccepted = false;
    for (const worker of this.supervisor.all) {
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
    if (grace) await elapsed(this.current.shutdown.grace, clock);
    await this.supervisor.stop(this.current.shutdown.timeout + CLOSE_ALLOWANCE);
    this.options.onStopped();
    this.hub.close();
    await this.operations.close();
  }

  private adopt(worker: Worker): void {
    const { peer } = worker;
    const { workers } = this.options;
    const left = this.hub.serve(peer, () => this.supervisor.kill(worker));
    this.left.set(worker, left);
    peer.answer("boot", () => {
      if (this.isDraining) peer.tell("announceDrain", undefined);
      return { id: worker.id, config: workerConfig(this.current, workers) };
    });
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

  private lose(worker: Worker, unasked: "crashed" | "hung" | undefined): void {
    this.left.get(worker)?.();
    if (unasked !== undefined) this.options.metrics.workerEnds.inc({ reason: unasked });
    void this.fleetMetrics.retire(worker.id);
  }

  private states(): WorkerState[] {
    return this.supervisor.listening.flatMap(({ state }) => (state === undefined ? [] : [state]));
  }

  private report(): ReadinessReport {
    const report = this.readiness.report();
    if (!report.ready || this.supervisor.listening.length > 0) return report;
    return { ...report, ready: false, reason: "no worker is running" };
  }

  private status(): object {
    const { clock } = this.options;
    const states = this.states();
    const now = clock.now();
    return {
      redis: mergeRedis(states),
      upstreams: mergeUpstreams(states),
      workers: this.supervisor.all.map(({ id, process, isListening, startedAt }) => ({
        id,
        pid: process.pid,
        state: isListening ? "listening" : "starting",
        uptimeSeconds: Math.round((now - startedAt) / 1000),
      })),
    };
  }

  /** Every worker purges: each may know an admin that others have not heard of yet, and has its own way to Redis. */
  private async purge(body: unknown): Promise<PurgeResult> {
    const results = await this.askAll((worker) => worker.peer.ask("purgeAll", body, PURGE_TIMEOUT), {
      // It would go on serving what was purged.
      unanswered: (worker) => this.supervisor.kill(worker),
    });
    const [first] = results;
    const reaches = new Set(results.map(([, { reach }]) => reach));
    const order: readonly PurgeReach[] = ["pending", "replica", "fleet"];
    return { purged: first![1].purged, reach: order.find((each) => reaches.has(each))! };
  }

  private async explain(path: string): Promise<PathExplanation> {
    const explained = await this.askAll((worker) => worker.peer.ask("explain", path, REPLY_TIMEOUT));
    return mergeExplanations(explained.map(([worker, explanation]) => [worker.id, explanation] as const));
  }

  /** What each worker says that answers clients. Rejects with what a worker refuses, and when none replies. */
  private async askAll<Reply>(
    ask: (worker: Worker) => Promise<Reply>,
    { unanswered }: { readonly unanswered?: (worker: Worker) => void } = {},
  ): Promise<(readonly [Worker, Reply])[]> {
    const replies = await Promise.all(
      this.supervisor.listening.map(async (worker) => {
        try {
          return [worker, await ask(worker)] as const;
        } catch (error) {
          if (!(error instanceof Unanswered)) throw error;
          unanswered?.(worker);
          return undefined;
        }
      }),
    );
    const heard = replies.filter((reply) => reply !== undefined);
    if (heard.length > 0) return heard;
    throw new GatewayError(503, "no worker is running just now; try again shortly", { retryAfter: 1 });
  }

  private async readMetrics(): Promise<string> {
    await Promise.all(this.supervisor.listening.map((worker) => this.noteMetrics(worker)));
    return this.fleetMetrics.metrics();
  }

  private async noteMetrics(worker: Worker): Promise<void> {
    try {
      const snapshot = await worker.peer.ask("metrics", undefined, METRICS_TIMEOUT);
      if (this.supervisor.all.includes(worker)) this.fleetMetrics.note(worker.id, snapshot);
    } catch {
      // Its last numbers stay.
    }
  }

  private keepMetrics(): void {
    this.options.clock.after(METRICS_EVERY, () => {
      for (const worker of this.supervisor.listening) void this.noteMetrics(worker);
      this.keepMetrics();
    });
  }
}
