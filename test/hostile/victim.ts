import { once } from "node:events";
import type { Socket } from "node:net";
import { Worker } from "node:worker_threads";
import { expect } from "vitest";
import { atEnd } from "../support/closing.ts";
import { INFO, PREFIX } from "../support/endpoints.ts";
import type { Values } from "../support/gateway.ts";
import { type GatewayProcess, PROGRAM, startProcess } from "../support/process.ts";
import { startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { type Held, spentBy, type Task } from "./probe.ts";

/** A hit of somebody else waits no longer for what any client, registry, Redis or file does. Milliseconds of CPU. */
export const LONGEST_HOLD = 100;
/** For costly JSON, and each MiB of it. */
export const LONGEST_HOLD_PER_MIB = 150;
/** For what hundreds of connections do at once. */
export const LONGEST_HOLD_OF_MANY = 1_000;

/** So much CPU the parse of a MiB of arrays within arrays takes where the bounds above were set. */
const USUAL_PARSE = 50;

/** How much slower than there this machine is just now: other programs share its caches. At least 1. */
export function slowness(): number {
  const text = "[".repeat(2 ** 19) + "]".repeat(2 ** 19);
  const before = process.threadCpuUsage();
  JSON.parse(text);
  const { user, system } = process.threadCpuUsage(before);
  return Math.max(1, (user + system) / 1_000 / USUAL_PARSE);
}

/** Writes the same again and again, as long as the other side takes it. */
export function pour(socket: Socket, block: string): void {
  const write = (): void => {
    while (!socket.destroyed && socket.write(block, "latin1"));
  };
  socket.on("drain", write).on("error", () => undefined);
  write();
}

/** The program with little memory, before a registry that is well, `well`, and those that a test has attack it. */
export class Victim {
  readonly process: GatewayProcess;
  /** Milliseconds of CPU that its loop has spent. */
  readonly spent: () => number;
  private readonly probe: Worker;

  private constructor(process: GatewayProcess, probe: Worker) {
    this.process = process;
    this.probe = probe;
    this.spent = () => spentBy(process.child.pid);
  }

  static async start(values: Partial<Values> = {}): Promise<Victim> {
    const well = await startRegistry("well");
    const [node = "", ...others] = PROGRAM;
    const program = [node, "--max-old-space-size=384", ...others];
    const process = await startProcess({ ...values, upstreams: [well, ...(values.upstreams ?? [])] }, { program });
    const path = `${PREFIX}/well${INFO}`;
    // A busy machine makes it late, and it sheds what comes first.
    await until(async () => (await process.site.get(path)).status === 200);
    const { hostname: host, port } = new URL(process.site.url);
    const task: Task = { host, port: Number(port), path, pid: process.child.pid };
    const probe = new Worker(new URL("probe.ts", import.meta.url), { workerData: task });
    probe.unref();
    atEnd(() => probe.terminate());
    return new Victim(process, probe);
  }

  /** What hits had to wait while somebody did this to it. */
  async during(attack: () => Promise<unknown>): Promise<Held> {
    const { probe } = this;
    const { child } = this.process;
    // A probe whose gateway is gone tells nothing more.
    const gone = child.ended.then((): never => {
      throw new Error(`the gateway ended:\n${child.stderr.slice(0, 4_000)}`);
    });
    const tell = async (message: "begin" | "end"): Promise<Held> => {
      const told = once(probe, "message") as Promise<[Held]>;
      probe.postMessage(message);
      return (await Promise.race([told, gone]))[0];
    };
    await tell("begin");
    await attack();
    return tell("end");
  }

  /** That it lives, and hits wait no longer than `most` for this. What holds it, does so each time: one of three counts. */
  async expectHolds(most: number, attack: (round: number) => Promise<unknown>): Promise<void> {
    let { worst, failures } = await this.during(() => attack(0));
    for (let round = 1; round < 3 && worst > most; round += 1) {
      const again = await this.during(() => attack(round));
      worst = Math.min(worst, again.worst / slowness());
      failures += again.failures;
    }
    expect(failures).toBe(0);
    expect(worst).toBeLessThan(most);
  }

  /** The outcome of a GET, or of a POST with a body, once what was before is digested: the gateway sheds calls for a second. */
  async ask(path: string, body?: string): Promise<string> {
    const { site } = this.process;
    const { outcome } = await until(async () => {
      const answer = await (body === undefined ? site.get(path) : site.post(path, body));
      return answer.code !== "overloaded" && answer;
    });
    return outcome;
  }
}
