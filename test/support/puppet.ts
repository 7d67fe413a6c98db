import type { Clock } from "../../src/clock.ts";
import { Peer } from "../../src/workers/rpc.ts";
import type { WorkerProcess } from "../../src/workers/worker-process.ts";
import type { Boot, PrimaryTopics, WorkerTopics } from "../../src/workers/protocol.ts";
import { channelPair } from "./workers-scene.ts";

/** A worker that does what a test says; once it has begun, it listens. */
export class Puppet {
  readonly id: number;
  readonly primary: Peer<WorkerTopics, PrimaryTopics>;
  readonly close: () => void;
  /** Why it will not be able to begin. */
  failure: string | undefined;
  /** It beats. */
  isAlive = false;
  hasExited = false;
  /** What it was told to begin with. */
  boot: Boot | undefined;
  wasKilled = false;
  exited: (why: string) => void = () => {};

  constructor(id: number, primary: Peer<WorkerTopics, PrimaryTopics>, close: () => void) {
    this.id = id;
    this.primary = primary;
    this.close = close;
  }

  get hasBegun(): boolean {
    return this.boot !== undefined;
  }

  /** Its modules are loaded: it begins, if it still lives. */
  load(): void {
    if (this.hasExited) return;
    this.isAlive = true;
    void this.begin();
  }

  private async begin(): Promise<void> {
    this.boot = await this.primary.ask("begin", undefined, 1_000);
    if (this.failure === undefined) this.primary.tell("listening", 8080);
    else this.primary.tell("failed", this.failure);
  }

  exit(why: string): void {
    this.isAlive = false;
    this.hasExited = true;
    this.close();
    this.exited(why);
  }
}

/** Starts one, adds it to `puppets`, and numbers it by its place there, from 1. */
export function spawnPuppet(puppets: Puppet[], clock: Clock): WorkerProcess {
  const [ours, theirs] = channelPair();
  const id = puppets.length + 1;
  const puppet = new Puppet(id, new Peer(theirs, clock), () => theirs.close());
  puppets.push(puppet);
  return {
    id,
    pid: id,
    channel: ours,
    kill() {
      puppet.wasKilled = true;
      puppet.exit("SIGKILL");
    },
    onExit(listener) {
      puppet.exited = listener;
    },
  };
}
