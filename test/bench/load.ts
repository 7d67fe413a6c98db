import type { ChildProcess } from "node:child_process";
import { ask, startProcess, stop } from "./child.ts";
import { cpuTime } from "./cpu-time.ts";
import type { LoadCommand, LoadPlan, LoadReply, LoadResult } from "./load-plan.ts";

/** One run of load is to be over by then. */
const RUN_PATIENCE = 60_000;

/** What a run cost the server. */
export interface Measurement extends LoadResult {
  /** Microseconds of CPU of the server, and of its child processes, per request. */
  readonly cpu: number;
}

/** The load generator, in a process of its own. */
export class Load {
  private readonly child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.child = child;
  }

  static async start(): Promise<Load> {
    const { child } = await startProcess("load-process.ts");
    return new Load(child);
  }

  /** Opens the connections, then sends the load, and measures what the process `pid` uses in between. */
  async run(plan: LoadPlan, pid: number): Promise<Measurement> {
    await this.command({ do: "open", plan });
    const before = cpuTime(pid);
    const reply = await this.command({ do: "run" });
    const used = cpuTime(pid) - before;
    if (!("result" in reply)) throw new Error("the load generator sent no result");
    return { ...reply.result, cpu: used / 1_000 / plan.count };
  }

  stop(): Promise<void> {
    return stop(this.child);
  }

  private async command(command: LoadCommand): Promise<LoadReply> {
    const reply = await ask<LoadReply>(this.child, command, RUN_PATIENCE);
    if ("error" in reply) throw new Error(`load: ${reply.error}`);
    return reply;
  }
}
