import { ClusterHub } from "../../src/workers/hub.ts";
import { ClusterMember } from "../../src/workers/member.ts";
import { Peer, type Port } from "../../src/workers/peer.ts";
import type { HubTopics, MemberTopics } from "../../src/workers/topics.ts";
import { ManualClock } from "./manual-clock.ts";

/** Two ends of a channel as processes have it: what is sent is copied, and arrives later, in order. */
export function portPair(): readonly [PairedPort, PairedPort] {
  const one = new PairedPort();
  const other = new PairedPort();
  one.other = other;
  other.other = one;
  return [one, other];
}

export class PairedPort implements Port {
  other: PairedPort | undefined;
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

export interface ScenedMember {
  readonly coordinator: ClusterMember;
  /** The worker's end of the channel. */
  readonly port: PairedPort;
  /** Whether the hub had it ended. */
  isExpelled: boolean;
}

/** A hub with members in one process, over channels that behave like those between processes. */
export class ClusterScene {
  readonly clock = new ManualClock();
  readonly hub = new ClusterHub(this.clock);
  private readonly members: ScenedMember[] = [];

  async join(): Promise<ScenedMember> {
    const [hubPort, port] = portPair();
    const left = this.hub.serve(new Peer<HubTopics, MemberTopics>(hubPort, this.clock), () => {
      member.isExpelled = true;
      port.close();
    });
    hubPort.onClose(left);
    const coordinator = await ClusterMember.join(new Peer<MemberTopics, HubTopics>(port, this.clock), this.clock);
    const member: ScenedMember = { coordinator, port, isExpelled: false };
    this.members.push(member);
    return member;
  }

  /** Lets time go by, and everything that is under way arrive. */
  async pass(milliseconds: number): Promise<void> {
    await settle();
    this.clock.advance(milliseconds);
    await settle();
  }

  close(): Promise<void> {
    for (const { port } of this.members) port.close();
    this.hub.close();
    return Promise.resolve();
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
