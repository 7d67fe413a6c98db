import type { Clock, Duration } from "../clock.ts";
import type { PurgeReach } from "../coordination/coordinator.ts";
import { GatewayError } from "../errors.ts";
import type { ActionReport, ActRequest, ActResult } from "../operations/actions.ts";
import { History, type HistoryReport } from "../observe/history.ts";
import type { HistorySample } from "../observe/history-sample.ts";
import type { RequestFilter, RequestsReport } from "../observe/request-log.ts";
import type { CacheAnswer } from "../operations/answers.ts";
import { mergeCacheReports, type PurgePreview } from "../operations/cache-report.ts";
import { type ClientsReport, mergeClientsReports } from "../operations/clients-report.ts";
import type { PathExplanation } from "../operations/explain.ts";
import type { PurgeResult } from "../operations/purge.ts";
import { cursorsByWorker, mergeRequests } from "../operations/requests-report.ts";
import { Readiness, type ReadinessReport } from "../operations/readiness.ts";
import type { WorkerMetrics } from "./metrics.ts";
import type { WorkerState } from "./protocol.ts";
import { Unanswered } from "./rpc.ts";
import {
  mergeCache,
  mergeCertificates,
  mergeExplanations,
  mergeInForce,
  mergeRedis,
  mergeUpstreams,
} from "./status.ts";
import { isRedisConnected } from "../coordination/coordination.ts";
import type { Supervisor } from "./supervisor.ts";
import type { Worker } from "./worker-process.ts";

export interface WorkerOperationsOptions {
  readonly supervisor: Supervisor;
  readonly metrics: WorkerMetrics;
  readonly clock: Clock;
  readonly isDraining: () => boolean;
  /** Of the primary itself. */
  readonly sample: () => HistorySample;
}

/** The primary's place among those whose samples make the history: workers are counted from 1. */
const PRIMARY = 0;

/** A worker does little for an answer to the operator; one that is busy may take its time. */
const REPLY_TIMEOUT: Duration = 2_000;

/** Longer than a purge or an action waits for a worker that hangs. */
const ACTION_TIMEOUT: Duration = 6_000;

/** A scrape waits no longer for one worker; its last numbers are used then. */
const METRICS_TIMEOUT: Duration = 1_000;

/** What a worker had counted since is lost when it crashes. */
const METRICS_EVERY: Duration = 5_000;

/** What the operations listener tells and does, where there are workers: all of them as one gateway. */
export class WorkerOperations {
  private readonly options: WorkerOperationsOptions;
  private readonly supervisor: Supervisor;
  private readonly readiness: Readiness;
  private readonly history: History;

  constructor(options: WorkerOperationsOptions) {
    this.options = options;
    this.supervisor = options.supervisor;
    this.history = new History(options.clock);
    this.readiness = new Readiness({
      clock: options.clock,
      isDraining: options.isDraining,
      upstreams: () => mergeUpstreams(this.states()),
      isRedisConnected: () => isRedisConnected(mergeRedis(this.states())),
    });
  }

  private states(): WorkerState[] {
    return this.supervisor.listening.flatMap(({ state }) => (state === undefined ? [] : [state]));
  }

  /** See `Readiness`; without a worker no request can be answered. */
  report(): ReadinessReport {
    const report = this.readiness.report();
    if (!report.ready || this.supervisor.listening.length > 0) return report;
    return { ...report, ready: false, reason: "no worker is running" };
  }

  /** `/status` besides version and uptime. */
  status(): object {
    const states = this.states();
    return {
      cache: mergeCache(states),
      redis: mergeRedis(states),
      inForce: mergeInForce(states),
      certificates: mergeCertificates(states),
      upstreams: mergeUpstreams(states),
      workers: this.supervisor.all.map(({ id, process, isListening, age }) => ({
        id,
        pid: process.pid,
        state: isListening ? "listening" : "starting",
        uptimeSeconds: Math.round(age / 1000),
      })),
    };
  }

  /** What operators did that has effect now. */
  inForce(): readonly ActionReport[] {
    return mergeInForce(this.states());
  }

  purge(body: unknown): Promise<PurgeResult> {
    return this.carryOut((worker) => worker.peer.ask("operatorPurge", body, ACTION_TIMEOUT));
  }

  act(request: ActRequest): Promise<ActResult> {
    return this.carryOut((worker) => worker.peer.ask("operatorAct", request, ACTION_TIMEOUT));
  }

  /** One worker does it for all, through what they share. Where that is a Redis that is away, each does it by itself. */
  private async carryOut<Result extends { readonly reach: PurgeReach }>(
    ask: (worker: Worker) => Promise<Result>,
  ): Promise<Result> {
    // One that hangs is asked last.
    const workers = this.supervisor.listening.toSorted((one, other) => one.silence - other.silence);
    for (const worker of workers) {
      const result = await this.carryOutBy(worker, ask);
      if (result === undefined) continue;
      if (result.reach === "pending") {
        const others = workers.filter((other) => other !== worker);
        await Promise.all(others.map((other) => this.carryOutBy(other, ask)));
      }
      return result;
    }
    throw noWorker();
  }

  /** Undefined when the worker did not reply: it is ended, since it would go on as before. */
  private async carryOutBy<Result>(
    worker: Worker,
    ask: (worker: Worker) => Promise<Result>,
  ): Promise<Result | undefined> {
    try {
      return await ask(worker);
    } catch (error) {
      if (!(error instanceof Unanswered)) throw error;
      this.supervisor.kill(worker);
      return undefined;
    }
  }

  /** What every worker has of a path. Rejects as a request to it would be refused. */
  async explain(path: string): Promise<PathExplanation> {
    const explained = await this.askAll((worker) => worker.peer.ask("explain", path, REPLY_TIMEOUT));
    return mergeExplanations(explained.map(([worker, explanation]) => [worker.id, explanation] as const));
  }

  /** What is in the memory of all workers; what the primary keeps for them is behind it. */
  async cache(preview: PurgePreview): Promise<CacheAnswer> {
    const reports = await this.askAll((worker) => worker.peer.ask("cache", preview, ACTION_TIMEOUT));
    return mergeCacheReports(reports.map(([, report]) => report));
  }

  /** What each client used, of all workers. */
  async clients(): Promise<ClientsReport> {
    const reports = await this.askAll((worker) => worker.peer.ask("clients", undefined, REPLY_TIMEOUT));
    return mergeClientsReports(reports.map(([, report]) => report));
  }

  /** The last hour of all workers together. */
  historySince(since?: number): HistoryReport {
    return this.history.report(since);
  }

  /** The worker is gone. What it counted stays in the history. */
  forget(worker: Worker): void {
    this.history.forget(worker.id);
  }

  /** The latest requests to all workers. */
  async requests({ since, ...filter }: RequestFilter): Promise<RequestsReport> {
    const cursors = cursorsByWorker(since);
    const reports = await this.askAll((worker) => {
      const own = cursors.get(worker.id);
      return worker.peer.ask("requests", { ...filter, ...(own !== undefined && { since: own }) }, REPLY_TIMEOUT);
    });
    return mergeRequests(
      reports.map(([worker, report]) => [worker.id, report] as const),
      filter.limit,
    );
  }

  /** What each worker says that answers clients. Rejects with what a worker refuses, and when none replies. */
  private async askAll<Reply>(ask: (worker: Worker) => Promise<Reply>): Promise<(readonly [Worker, Reply])[]> {
    const replies = await Promise.all(
      this.supervisor.listening.map(async (worker) => {
        try {
          return [worker, await ask(worker)] as const;
        } catch (error) {
          if (!(error instanceof Unanswered)) throw error;
          return undefined;
        }
      }),
    );
    const heard = replies.filter((reply) => reply !== undefined);
    if (heard.length > 0) return heard;
    throw noWorker();
  }

  /** The exposition of the metrics of primary and workers. */
  async readMetrics(): Promise<string> {
    await Promise.all(this.supervisor.listening.map((worker) => this.noteMetrics(worker)));
    return this.options.metrics.metrics();
  }

  /** Learns every few seconds what workers have counted, for the case that they crash, and for the history. */
  begin(): void {
    this.keepMetrics();
    this.history.keep(async () => {
      const samples = this.supervisor.listening.map(
        async (worker) => [worker.id, await this.sampleOf(worker)] as const,
      );
      const heard = (await Promise.all(samples)).flatMap(([id, sample]) =>
        sample === undefined ? [] : [[id, sample] as const],
      );
      return new Map([[PRIMARY, this.options.sample()], ...heard]);
    });
  }

  end(): void {
    this.history.stop();
  }

  /** Undefined: it did not reply. The next sample has what this one would have had. */
  private async sampleOf(worker: Worker): Promise<HistorySample | undefined> {
    try {
      return await worker.peer.ask("sample", undefined, METRICS_TIMEOUT);
    } catch {
      return undefined;
    }
  }

  private keepMetrics(): void {
    this.options.clock.after(METRICS_EVERY, () => {
      for (const worker of this.supervisor.listening) void this.noteMetrics(worker);
      this.keepMetrics();
    });
  }

  private async noteMetrics(worker: Worker): Promise<void> {
    try {
      const snapshot = await worker.peer.ask("metrics", undefined, METRICS_TIMEOUT);
      if (this.supervisor.all.includes(worker)) this.options.metrics.note(worker.id, snapshot);
    } catch {
      // Its last numbers stay.
    }
  }
}

function noWorker(): GatewayError {
  return new GatewayError("no_worker", "no worker is running just now; try again shortly", { retryAfter: 1 });
}
