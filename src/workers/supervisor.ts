import { type CancelTimer, type Clock, type Duration, type Instant, settledWithin, sleep } from "../clock.ts";
import type { Logger } from "../observe/log.ts";
import { withoutSecrets } from "../observe/redaction.ts";
import type { Boot } from "./protocol.ts";
import { BEAT_EVERY, Worker, type WorkerProcess } from "./worker-process.ts";

export interface SupervisorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly count: number;
  readonly spawn: () => WorkerProcess;
  /** Called before a worker begins: what it may ask is answered from then on. */
  readonly adopt: (worker: Worker) => void;
  /** What it is to begin with, asked for when it can hear. */
  readonly boot: (worker: Worker) => Boot;
  /** A worker is gone; `unasked`: why, where it was not asked to go. */
  readonly lost: (worker: Worker, unasked: "crashed" | "hung" | undefined) => void;
}

/** A killed process is gone in no time, but the machine may be busy. */
const KILL_TIMEOUT: Duration = 2_000;

const FIRST_PAUSE: Duration = 250;
const LONGEST_PAUSE: Duration = 30_000;

/** A worker that answered for longer has not failed to begin. */
const LONG_LIFE: Duration = 5_000;

/** Pauses before a worker is replaced: what ends the next one too must not use up the machine. */
class BackOff {
  private failures = 0;

  /**
   * How long to wait now that one has ended. The first that did not answer for long is replaced at once as well.
   *
   * @param life for how long it answered
   */
  pauseAfter(life: Duration): Duration {
    this.failures = life > LONG_LIFE ? 0 : this.failures + 1;
    return this.failures < 2 ? 0 : Math.min(FIRST_PAUSE * 2 ** (this.failures - 2), LONGEST_PAUSE);
  }
}

/** Keeps a number of workers running: one that crashes or hangs is replaced. */
export class Supervisor {
  private readonly options: SupervisorOptions;
  private readonly workers = new Set<Worker>();
  private readonly backOff = new BackOff();
  private cancelLook: CancelTimer = () => {};
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
    for (const { hasBegun, peer, process } of this.workers) {
      if (hasBegun) peer.tell("drain", undefined);
      // It has nothing to finish, and may not even hear.
      else process.kill();
    }
    const ended = Promise.all(this.all.map((worker) => worker.ended));
    if (await settledWithin(ended, timeout, this.options.clock)) return;
    for (const { process } of this.workers) process.kill();
    await settledWithin(ended, KILL_TIMEOUT, this.options.clock);
  }

  private begin(): Promise<number> {
    const { adopt, boot, clock, spawn } = this.options;
    const worker = new Worker(spawn(), clock);
    this.workers.add(worker);
    void worker.ended.then((why) => this.end(worker, why));
    adopt(worker);
    return worker.begin(() => boot(worker));
  }

  private end(worker: Worker, why: string): void {
    const { log, lost } = this.options;
    this.workers.delete(worker);
    if (this.isStopping) {
      lost(worker, undefined);
      return;
    }
    const reason = worker.wasHung ? "hung" : "crashed";
    log.error({ worker: worker.id, reason, exit: why }, "worker ended and is replaced");
    lost(worker, reason);
    void this.replace(this.backOff.pauseAfter(worker.isListening ? worker.age : 0));
  }

  private async replace(pause: Duration): Promise<void> {
    const { log } = this.options;
    if (pause > 0) await sleep(pause, this.options.clock);
    if (this.isStopping) return;
    try {
      await this.begin();
      log.info({ pauseMs: pause }, "worker replaced");
    } catch (error) {
      if (this.isStopping) return;
      const reason = withoutSecrets(error instanceof Error ? error.message : String(error));
      log.error({ reason }, "worker cannot begin");
    }
  }

  /** Ends workers whose event loop is blocked. `expected`: when this look was due. */
  private look(expected: Instant): void {
    const { clock, log } = this.options;
    const now = clock.now();
    for (const worker of this.workers) {
      // Beats are not heard while this process is paused itself.
      if (now - expected > BEAT_EVERY) worker.excuse();
      if (!worker.isHung || worker.wasHung) continue;
      log.error({ worker: worker.id, silentMs: Math.round(worker.silence) }, "worker does not answer and is ended");
      this.kill(worker);
    }
    this.cancelLook = clock.after(BEAT_EVERY, () => this.look(now + BEAT_EVERY));
  }
}
