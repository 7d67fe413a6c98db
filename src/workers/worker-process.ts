import type { Clock, Duration, Instant } from "../clock.ts";
import { Peer, type Port } from "./peer.ts";
import type { Boot, PrimaryTopics, WorkerState, WorkerTopics } from "./worker-topics.ts";

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

/** Between two looks at the beats. Workers beat as often. */
export const BEAT_EVERY: Duration = 500;

/**
 * A worker silent for so long does nothing else either: its loop stands still. On a machine with far too much to do
 * seconds are nothing unusual.
 */
const HUNG_AFTER: Duration = 10_000;

/** Modules are loaded and files read; a machine that starts everything at once takes its time. */
const START_TIMEOUT: Duration = 30_000;

/** One worker as its primary sees it. */
export class Worker {
  readonly process: WorkerProcess;
  readonly peer: Peer<PrimaryTopics, WorkerTopics>;
  /** Why it did. */
  readonly ended: Promise<string>;
  state: WorkerState | undefined;
  wasHung = false;
  private readonly clock: Clock;
  private stage: "loading" | "starting" | "listening" = "loading";
  private enteredAt: Instant;
  private lastBeat: Instant;

  constructor(process: WorkerProcess, clock: Clock) {
    this.process = process;
    this.clock = clock;
    this.peer = new Peer(process.port, clock);
    this.enteredAt = clock.now();
    this.lastBeat = this.enteredAt;
    this.ended = new Promise((resolve) => {
      process.onExit(resolve);
    });
    this.peer.answer("beat", (state) => {
      this.lastBeat = clock.now();
      this.state = state;
      return undefined;
    });
  }

  get id(): number {
    return this.process.id;
  }

  /** It has its configuration, and hears of other ones. */
  get hasBegun(): boolean {
    return this.stage !== "loading";
  }

  /** Answers clients. */
  get isListening(): boolean {
    return this.stage === "listening";
  }

  /** For how long it has been listening; else, for how long it has been loading or starting. */
  get age(): Duration {
    return this.clock.now() - this.enteredAt;
  }

  /** For how long nothing was heard of it. */
  get silence(): Duration {
    return this.clock.now() - this.lastBeat;
  }

  /** Silent for longer than its work explains. */
  get isHung(): boolean {
    return this.silence > (this.isListening ? HUNG_AFTER : START_TIMEOUT);
  }

  /** It cannot be blamed for its silence up to now. */
  excuse(): void {
    this.lastBeat = this.clock.now();
  }

  /**
   * Lets it begin, as soon as it asks to. Resolves with the port when it answers clients; rejects when it cannot.
   *
   * @param boot called when it asks
   */
  begin(boot: () => Boot): Promise<number> {
    this.peer.answer("begin", () => {
      this.enter("starting");
      return boot();
    });
    return new Promise((resolve, reject) => {
      this.peer.answer("listening", (port) => {
        this.enter("listening");
        resolve(port);
        return undefined;
      });
      this.peer.answer("failed", (why) => {
        reject(new Error(why));
        return undefined;
      });
      void this.ended.then((why) => reject(new Error(`a worker ended before it could answer: ${why}`)));
    });
  }

  private enter(stage: "starting" | "listening"): void {
    this.stage = stage;
    this.enteredAt = this.clock.now();
    this.excuse();
  }
}
