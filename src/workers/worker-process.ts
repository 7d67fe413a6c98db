import type { Serializable } from "node:child_process";
import cluster, { type Worker as ChildProcess } from "node:cluster";
import { fastify } from "fastify";
import type { Clock, Duration, Instant } from "../clock.ts";
import { type ListenAddress, NO_SCHEMAS, openListener } from "../http/listening.ts";
import type { Boot, PrimaryTopics, WorkerState, WorkerTopics } from "./protocol.ts";
import { type Channel, Peer } from "./rpc.ts";

/** A process that was started as a worker. */
export interface WorkerProcess {
  readonly id: number;
  readonly pid: number | undefined;
  readonly channel: Channel;
  /** Ends it at once, whatever it does. */
  kill(): void;
  /** Called once. `why`: its exit code or signal. */
  onExit(listener: (why: string) => void): void;
}

/** Between two looks at the beats. Workers beat as often. */
export const BEAT_EVERY: Duration = 500;

/**
 * A worker silent for so long does nothing else either: its event loop is blocked. Seconds are nothing unusual on an
 * overloaded machine.
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
    this.peer = new Peer(process.channel, clock);
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

/** The channel to the primary, in a worker. */
export function channelToPrimary(): Channel {
  return channelOf(cluster.worker!);
}

/** Starts this same program, with the same arguments, as one more worker. */
export function spawnWorker(): WorkerProcess {
  // Where the primary accepts for all (see `openListener`), it deals connections out in turn.
  cluster.schedulingPolicy = cluster.SCHED_RR;
  // Structured clones: bytes of entries stay bytes.
  cluster.setupPrimary({ serialization: "advanced" });
  const worker = cluster.fork();
  return {
    id: worker.id,
    pid: worker.process.pid,
    channel: channelOf(worker),
    kill: () => void worker.process.kill("SIGKILL"),
    onExit(listener) {
      worker.once("exit", (code: number | null, signal: string | null) => listener(signal ?? `exit code ${code}`));
    },
  };
}

/**
 * Makes sure that workers can share `port` (0: any) of `host` and that no other program has it: sockets that share a
 * port with each other would share it with another gateway, too. Returns the port.
 *
 * @throws Error as `openListener`
 */
export async function reservePort(address: ListenAddress): Promise<number> {
  const probe = fastify({ schemaController: NO_SCHEMAS });
  try {
    return await openListener(probe, address, "public");
  } finally {
    await probe.close();
  }
}

function channelOf(worker: ChildProcess): Channel {
  return {
    send(message) {
      // A caller that waits for a reply hears that the other side is gone; the error itself says no more.
      if (worker.isConnected()) worker.process.send(message as Serializable, undefined, undefined, () => {});
    },
    onMessage(listener) {
      worker.on("message", listener);
    },
    onClose(listener) {
      let isClosed = false;
      const close = (): void => {
        if (!isClosed) listener();
        isClosed = true;
      };
      worker.once("disconnect", close);
      // A channel with something unread in it stays open when the process behind it has died.
      worker.once("exit", close);
    },
  };
}
