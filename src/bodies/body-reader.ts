import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { CancelTimer, Clock, Duration } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { Delivery, Order, Result, Results, Task } from "./thread.ts";

/**
 * A body up to so many bytes is read where it is wanted. JSON can take 0.13 s a MiB to parse (a million keys), so this
 * is a matter of a few milliseconds at the worst; and to hand it to another thread and back takes some 0.2 ms.
 */
export const AT_ONCE = 64 * 1024;

/** How long a body may wait for its turn, and then how long reading it may take. */
const MAX_WAIT: Duration = 10_000;
const MAX_READING: Duration = 10_000;

const MAX_WAITING = 1_000;

/** The thread ends when it had nothing to do for so long: its heap is as large as the largest body made it. */
const IDLE: Duration = 30_000;

/** What a parsed body may take of memory: sixteen times its bytes are enough for what registries and wallets send. */
const WEIGHT_PER_BYTE = 16;
const LEAST_WEIGHT = 128 * 1024 * 1024;

/** The heap of the thread, for one body and what is made of it: one that runs out would end the process. */
const HEAP_PER_WEIGHT = 3;

/** Reading the body would take more time or memory than one gets. */
export class TooCostly extends Error {
  constructor() {
    super("takes more time or memory to read than the gateway gives one");
    this.name = "TooCostly";
  }
}

export interface BodyReaderOptions {
  readonly clock: Clock;
  /** The largest body there may be now, in bytes. */
  readonly largest: () => number;
}

/** Who has something read. */
export interface Asker {
  /** An upstream's name, or undefined for clients: each has its turn, however much the others have. */
  readonly source: string | undefined;
  /** False once no request waits for it any more. */
  readonly isWanted?: () => boolean;
}

interface Job {
  readonly task: Task;
  readonly body: Buffer;
  readonly asker: Asker;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: Error) => void;
  cancelTimer: CancelTimer;
}

/**
 * Reads large bodies in a thread of its own, one after the other, so that no body holds the event loop. What comes back
 * is small. The thread is started when it is first needed.
 */
export class BodyReader {
  private readonly options: BodyReaderOptions;
  private readonly waiting = new Map<string | undefined, Job[]>();
  private waitingCount = 0;
  private running: Job | undefined;
  private thread: Worker | undefined;
  /** What the thread's heap has room for. */
  private room = 0;
  private cancelIdle: CancelTimer = () => undefined;

  constructor(options: BodyReaderOptions) {
    this.options = options;
  }

  /**
   * What a large body says.
   * @throws TooCostly (in the promise); GatewayError 503 when too many bodies wait.
   */
  read<T extends Task>(task: T, body: Buffer, asker: Asker): Promise<Results[T["kind"]]> {
    return new Promise((resolve, reject) => {
      if (this.waitingCount >= MAX_WAITING) return reject(tooMany());
      const job: Job = {
        task,
        body,
        asker,
        // The result is of the task's kind: the thread does the one that it is given.
        resolve: resolve as (result: Result) => void,
        reject,
        cancelTimer: this.options.clock.after(MAX_WAIT, () => {
          this.forget(job);
          reject(tooMany());
        }),
      };
      const queue = this.waiting.get(asker.source);
      if (queue === undefined) this.waiting.set(asker.source, [job]);
      else queue.push(job);
      this.waitingCount += 1;
      this.next();
    });
  }

  /** Ends the thread; what waits is refused. */
  close(): void {
    for (const job of this.takeAll()) settle(job, () => job.reject(tooMany()));
    this.stop(tooMany());
  }

  private next(): void {
    if (this.running !== undefined) return;
    this.cancelIdle();
    const job = this.take();
    if (job === undefined) {
      if (this.thread !== undefined) this.cancelIdle = this.options.clock.after(IDLE, () => this.stop(tooMany()));
      return;
    }
    this.running = job;
    job.cancelTimer();
    job.cancelTimer = this.options.clock.after(MAX_READING, () => this.stop(new TooCostly()));
    // A copy of its own: the body itself is still needed here.
    const bytes = new Uint8Array(job.body);
    const { maxWeight } = this;
    const order: Order = { task: job.task, bytes, maxWeight };
    try {
      if (maxWeight > this.room) this.endThread();
      this.thread ??= this.start(maxWeight);
      this.thread.postMessage(order, [bytes.buffer]);
    } catch (error) {
      // No thread is to be had: nor would be for the next body.
      for (const waiting of this.takeAll()) settle(waiting, () => waiting.reject(tooMany()));
      this.stop(errorOf(error));
    }
  }

  /** The next job: of each source in turn. */
  private take(): Job | undefined {
    for (const [source, queue] of this.waiting) {
      this.waiting.delete(source);
      const job = queue.shift();
      if (queue.length > 0) this.waiting.set(source, queue);
      if (job === undefined) continue;
      this.waitingCount -= 1;
      if (job.asker.isWanted?.() !== false) return job;
      settle(job, () => job.reject(tooMany()));
    }
    return undefined;
  }

  private takeAll(): readonly Job[] {
    const jobs = [...this.waiting.values()].flat();
    this.waiting.clear();
    this.waitingCount = 0;
    return jobs;
  }

  private forget(job: Job): void {
    const queue = this.waiting.get(job.asker.source) ?? [];
    const at = queue.indexOf(job);
    if (at === -1) return;
    queue.splice(at, 1);
    this.waitingCount -= 1;
    if (queue.length === 0) this.waiting.delete(job.asker.source);
  }

  /** A thread with room for a body of this weight; its heap cannot grow beyond that later. */
  private start(maxWeight: number): Worker {
    const extension = extname(fileURLToPath(import.meta.url));
    const heap = maxWeight * HEAP_PER_WEIGHT;
    const thread = new Worker(new URL(`./thread${extension}`, import.meta.url), {
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: Math.ceil(heap / 2 ** 20) },
    });
    this.room = maxWeight;
    // It must not keep a process that is done.
    thread.unref();
    thread.on("message", ({ result }: Delivery) => {
      if (thread !== this.thread) return;
      const job = this.running;
      this.running = undefined;
      if (job !== undefined) {
        settle(job, () => (result === undefined ? job.reject(new TooCostly()) : job.resolve(result)));
      }
      this.next();
    });
    thread.on("error", (error) => {
      if (thread === this.thread) this.stop(errorOf(error));
    });
    return thread;
  }

  private get maxWeight(): number {
    return Math.max(LEAST_WEIGHT, this.options.largest() * WEIGHT_PER_BYTE);
  }

  /** Ends the thread, and what it reads with `error`; the next job starts another one. */
  private stop(error: Error): void {
    const { running } = this;
    this.cancelIdle();
    this.running = undefined;
    this.endThread();
    if (running !== undefined) settle(running, () => running.reject(error));
    if (this.waitingCount > 0) this.next();
  }

  private endThread(): void {
    void this.thread?.terminate();
    this.thread = undefined;
  }
}

function settle(job: Job, end: () => void): void {
  job.cancelTimer();
  end();
}

function errorOf(thrown: unknown): Error {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const code = "code" in error ? error.code : undefined;
  if (code === "ERR_WORKER_OUT_OF_MEMORY") return new TooCostly();
  // No file descriptor or no memory is left: there may be in a moment.
  if (code !== "ERR_WORKER_INIT_FAILED") return error;
  const text = "the gateway cannot read large bodies just now; try again in 1 s";
  return new GatewayError("overloaded", text, { retryAfter: 1, cause: error });
}

function tooMany(): GatewayError {
  return new GatewayError("overloaded", "the gateway has too many large bodies to read just now; try again in 1 s", {
    retryAfter: 1,
  });
}
