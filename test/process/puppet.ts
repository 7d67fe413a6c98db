import type { Clock } from "../../src/clock.ts";
import { Peer } from "../../src/coordinator/cluster-peer.ts";
import type { WorkerProcess } from "../../src/process/worker-process.ts";
import type { Boot, PrimaryTopics, WorkerTopics } from "../../src/process/worker-topics.ts";
import { portPair } from "../coordinator/cluster-scene.ts";

/** A worker that does what a test says; told to begin, it listens. */
export class Puppet {
  readonly id: number;
  readonly primary: Peer<WorkerTopics, PrimaryTopics>;
  readonly close: () => void;
  /** Why it will not be able to begin. */
  failure: string | undefined;
  /** It beats. */
  isAlive = false;
  /** What it was told to begin with. */
  boot: Boot | undefined;
  wasKilled = false;
  exited: (why: string) => void = () => {};

  constructor(id: number, primary: Peer<WorkerTopics, PrimaryTopics>, close: () => void) {
    this.id = id;
    this.primary = primary;
    this.close = close;
    primary.answer("begin", (boot) => {
      this.boot = boot;
      if (this.failure === undefined) primary.tell("listening", 8080);
      else primary.tell("failed", this.failure);
      return undefined;
    });
  }

  get hasBegun(): boolean {
    return this.boot !== undefined;
  }

  load(): void {
    this.isAlive = true;
    this.primary.tell("loaded", undefined);
  }

  exit(why: string): void {
    this.isAlive = false;
    this.close();
    this.exited(why);
  }
}

/** Starts one, adds it to `puppets`, and numbers it by its place there, from 1. */
export function spawnPuppet(puppets: Puppet[], clock: Clock): WorkerProcess {
  const [ours, theirs] = portPair();
  const id = puppets.length + 1;
  const puppet = new Puppet(id, new Peer(theirs, clock), () => theirs.close());
  puppets.push(puppet);
  return {
    id,
    pid: id,
    port: ours,
    kill() {
      puppet.wasKilled = true;
      puppet.exit("SIGKILL");
    },
    onExit(listener) {
      puppet.exited = listener;
    },
  };
}
