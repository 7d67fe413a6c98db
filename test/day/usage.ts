import { readFileSync } from "node:fs";
import { ownCpuTime, processTree } from "../bench/cpu-time.ts";

export interface Usage {
  /** Of CPU. */
  readonly seconds: number;
  /** Bytes at most, what processes share counted once. */
  readonly memory: number;
}

const SAMPLE_EVERY = 2_000;

/** Adds up what processes use that come and go. */
export class UsageSampler {
  private readonly pids: () => readonly number[];
  private readonly cpu = new Map<number, number>();
  private readonly timer: NodeJS.Timeout;
  private memory = 0;

  constructor(pids: () => readonly number[]) {
    this.pids = pids;
    this.sample();
    this.timer = setInterval(() => this.sample(), SAMPLE_EVERY).unref();
  }

  /** Since it was made, and what the processes had used by then. */
  stop(): Usage {
    clearInterval(this.timer);
    this.sample();
    const nanoseconds = [...this.cpu.values()].reduce((sum, each) => sum + each, 0);
    return { seconds: nanoseconds / 1e9, memory: this.memory };
  }

  private sample(): void {
    const tree = new Set(processTree(this.pids()));
    let memory = 0;
    for (const pid of tree) {
      // One that has ended keeps what it had used.
      this.cpu.set(pid, Math.max(this.cpu.get(pid) ?? 0, ownCpuTime(pid)));
      memory += proportionalMemory(pid);
    }
    this.memory = Math.max(this.memory, memory);
  }
}

function proportionalMemory(pid: number): number {
  try {
    return Number(/^Pss:\s+([0-9]+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
