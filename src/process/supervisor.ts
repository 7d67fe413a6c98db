import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import { Peer, type Port } from "../coordinator/cluster-peer.ts";
import type { Logger } from "../log.ts";
import { withoutSecrets } from "../redaction.ts";
import { settledWithin } from "./waiting.ts";
import type { PrimaryTopics, WorkerState, WorkerTopics } from "./worker-topics.ts";

/** A process that was started as a worker. */
export interface WorkerProcess {
  readonly id: number;
  readonly pid: number | undefined;
  readonly port: Port;
  /** Ends it at once, whatever it does. */
  kill(): void;
  /** Called once. `why`: its exit code or signal. */
  onExit(listener: (why: string) => void): void;
}

export interface SupervisorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly count: number;
  readonly spawn: () => WorkerProcess;
  /** Called before a worker can say anything: what it may ask is answered from then on. */
  readonly adopt: (worker: Worker) => void;
  /** A worker is gone; `unasked`: why, where nobody asked it to go. */
  readonly lost: (worker: Worker, unasked: "crashed" | "hung" | undefined) => void;
}

/** Between two looks at the beats. Workers beat as often. */
export const BEAT_EVERY: Duration = 500;

/**
 * A worker silent for so long does nothing else either: its loop stands still. On a machine with far too much to do
 * seconds are nothing unusual.
 */
const HUNG_AFTER: Duration = 10_000;

/** Modules are loaded and files read; a machine that starts everything at once takes its time. */
const START_TIMEOUT: Duration = 30_000;

/** Pauses before a worker is replaced that did not live long: what ends the next one too must not use up the machine. */
const FIRST_PAUSE: Duration = 250;
const LONGEST_PAUSE: Duration = 30_000;

/** A worker that lived longer has not failed to begin: it is replaced at once. */
const LONG_LIFE: Duration = 10_000;

/** A killed process is gone in no time, but the machine may be busy. */
const KILL_TIMEOUT: Duration = 2_000;

/** One worker as its primary sees it. */
export class Worker {
  readonly process: WorkerProcess;
  readonly peer: Peer<PrimaryTopics, WorkerTopics>;
  readonly startedAt: Instant;
  readonly ended: Promise<string>;
  /** Answers clients. */
  isListening = false;
  lastBeat: Instant;
  state: WorkerState | undefined;
  wasHung = false;

  constructor(process: WorkerProcess, clock: Clock) {
    this.process = process;
    this.peer = new Peer(process.port, clock);
    this.startedAt = clock.now();
    this.lastBeat = this.startedAt;
    this.ended = new Promise((resolve) => {
      process.onExit(resolve);
    });
  }

  get id(): number {
    return this.process.id;
  }
}

/** Keeps a number of workers running: one that crashes or hangs is replaced. */
export class Supervisor {
  private readonly options: SupervisorOptions;
  private readonly workers = new Set<Worker>();
  private readonly pauses = new Set<CancelTimer>();
  private cancelLook: CancelTimer = () => {};
  private failures = 0;
  private isStopping = false;

  constructor(options: SupervisorOptions) {
    this.options = options;
  }

  /** Those that exist, whether or not they answer yet. */
  get all(): readonly Worker[] {
    return [...this.workers];
  }

  /** Those that answer clients. */
  get listening(): readonly Worker[] {
    return this.all.filter(({ isListening }) => isListening);
  }

  /** Resolves with the port when all workers answer; rejects when one of them cannot begin. */
  async start(): Promise<number> {
    const started = Array.from({ length: this.options.count }, () => this.begin());
    const ports = await Promise.all(started);
    this.look(this.options.clock.now());
    return ports[0]!;
  }

  /** Ends a worker that cannot be trusted to do what it is told. It is replaced. */
  kill(worker: Worker): void {
    worker.wasHung = true;
    worker.process.kill();
  }

  /** Lets every worker finish, and ends those that have not after `timeout`. None is replaced. */
  async stop(timeout: Duration): Promise<void> {
    this.isStopping = true;
    this.cancelLook();
    for (const cancel of this.pauses) cancel();
    for (const { peer } of this.workers) peer.tell("drain", undefined);
    const ended = Promise.all(this.all.map((worker) => worker.ended));
    if (await settledWithin(ended, timeout, this.options.clock)) return;
    for (const { process } of this.workers) process.kill();
    await settledWithin(ended, KILL_TIMEOUT, this.options.clock);
  }

  private begin(): Promise<number> {
    const { clock, adopt } = this.options;
    const worker = new Worker(this.options.spawn(), clock);
    this.workers.add(worker);
    const { peer } = worker;
    const port = new Promise<number>((resolve, reject) => {
      peer.answer("listening", (opened) => {
        worker.isListening = true;
        worker.lastBeat = clock.now();
        resolve(opened);
        return undefined;
      });
      peer.answer("failed", (why) => {
        reject(new Error(why));
        return undefined;
      });
      void worker.ended.then((why) => {
        reject(new Error(`a worker ended before it could answer: ${why}`));
        this.end(worker, why);
      });
    });
    peer.answer("beat", (state) => {
      worker.lastBeat = clock.now();
      worker.state = state;
      return undefined;
    });
    adopt(worker);
    return port;
  }

  private end(worker: Worker, why: string): void {
    const { log, lost, clock } = this.options;
    this.workers.delete(worker);
    if (this.isStopping) {
      lost(worker, undefined);
      return;
    }
    const reason = worker.wasHung ? "hung" : "crashed";
    log.error({ worker: worker.id, reason, exit: why }, "worker ended and is replaced");
    lost(worker, reason);
    this.failures = clock.now() - worker.startedAt > LONG_LIFE ? 0 : this.failures + 1;
    void this.replace();
  }

  private async replace(): Promise<void> {
    const { log } = this.options;
    // The first that did not live long is replaced at once as well.
    const pause = this.failures < 2 ? 0 : Math.min(FIRST_PAUSE * 2 ** (this.failures - 2), LONGEST_PAUSE);
    if (pause > 0) await this.rest(pause);
    if (this.isStopping) return;
    try {
      await this.begin();
      log.info({ pauseMs: pause }, "worker replaced");
    } catch (error) {
      const reason = withoutSecrets(error instanceof Error ? error.message : String(error));
      log.error({ reason }, "worker cannot begin");
    }
  }

  private async rest(pause: Duration): Promise<void> {
    const { clock } = this.options;
    await new Promise<void>((resolve) => {
      const cancel = clock.after(pause, () => {
        this.pauses.delete(cancel);
        resolve();
      });
      this.pauses.add(cancel);
    });
  }

  /** Ends workers whose loop stands still. `expected`: when this look was due. */
  private look(expected: Instant): void {
    const { clock, log } = this.options;
    const now = clock.now();
    // Beats are not heard while this process is paused itself.
    if (now - expected > BEAT_EVERY) for (const worker of this.workers) worker.lastBeat = now;
    for (const worker of this.workers) {
      const patience = worker.isListening ? HUNG_AFTER : START_TIMEOUT;
      const silent = now - worker.lastBeat;
      if (silent <= patience || worker.wasHung) continue;
      log.error({ worker: worker.id, silentMs: Math.round(silent) }, "worker does not answer and is ended");
      this.kill(worker);
    }
    this.cancelLook = clock.after(BEAT_EVERY, () => this.look(now + BEAT_EVERY));
  }
}
