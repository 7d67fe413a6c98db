import { SharedState } from "../../src/workers/shared-state.ts";
import { WorkerCoordinator } from "../../src/workers/worker-coordinator.ts";
import { Peer, type Channel } from "../../src/workers/rpc.ts";
import type { PrimaryTopics, WorkerTopics } from "../../src/workers/protocol.ts";
import { ManualClock } from "./manual-clock.ts";

/** Two ends of a channel as processes have it: what is sent is copied, and arrives later, in order. */
export function channelPair(): readonly [PairedChannel, PairedChannel] {
  const one = new PairedChannel();
  const other = new PairedChannel();
  one.other = other;
  other.other = one;
  return [one, other];
}

export class PairedChannel implements Channel {
  other: PairedChannel | undefined;
  /** Messages that arrived at this end. */
  received = 0;
  /** False: what is sent to this end waits, as at a process that hangs. */
  isReading = true;
  private isClosed = false;
  private readonly messages: unknown[] = [];
  private listener: (message: unknown) => void = () => {};
  private readonly closeListeners: (() => void)[] = [];

  send(message: unknown): void {
    const copy: unknown = structuredClone(message);
    this.other!.messages.push(copy);
    setImmediate(() => this.other!.read());
  }

  onMessage(listener: (message: unknown) => void): void {
    this.listener = listener;
  }

  onClose(listener: () => void): void {
    this.closeListeners.push(listener);
  }

  resume(): void {
    this.isReading = true;
    this.read();
  }

  /** The process at this end is gone. */
  close(): void {
    this.isClosed = true;
    this.other!.isClosed = true;
    for (const listener of [...this.closeListeners, ...this.other!.closeListeners]) listener();
  }

  private read(): void {
    while (this.isReading && !this.isClosed && this.messages.length > 0) {
      this.received += 1;
      this.listener(this.messages.shift());
    }
  }
}

export interface ScenedWorker {
  readonly coordinator: WorkerCoordinator;
  /** The worker's end of the channel. */
  readonly channel: PairedChannel;
  /** Whether the primary ended it. */
  isEnded: boolean;
}

/** A primary and its workers in one process, over channels that behave like those between processes. */
export class WorkersScene {
  readonly clock = new ManualClock();
  readonly state = new SharedState(this.clock);
  private readonly workers: ScenedWorker[] = [];

  async join(): Promise<ScenedWorker> {
    const [primaryEnd, channel] = channelPair();
    const left = this.state.serve(new Peer<PrimaryTopics, WorkerTopics>(primaryEnd, this.clock), () => {
      worker.isEnded = true;
      channel.close();
    });
    primaryEnd.onClose(left);
    const coordinator = await WorkerCoordinator.join(
      new Peer<WorkerTopics, PrimaryTopics>(channel, this.clock),
      this.clock,
    );
    const worker: ScenedWorker = { coordinator, channel, isEnded: false };
    this.workers.push(worker);
    return worker;
  }

  /** Lets time go by, and everything that is under way arrive. */
  async pass(milliseconds: number): Promise<void> {
    await settle();
    this.clock.advance(milliseconds);
    await settle();
  }

  close(): Promise<void> {
    for (const { channel } of this.workers) channel.close();
    return this.state.close();
  }
}

/** Lets everything arrive that is under way, replies to it included. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 6; i += 1) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
