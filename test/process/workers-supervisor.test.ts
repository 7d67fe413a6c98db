import { afterEach, beforeEach, expect, it } from "vitest";
import { Peer } from "../../src/coordinator/cluster-peer.ts";
import { createLogger } from "../../src/log.ts";
import { Supervisor, type Worker } from "../../src/process/supervisor.ts";
import type { PrimaryTopics, WorkerTopics } from "../../src/process/worker-topics.ts";
import { type PairedPort, portPair, settle } from "../coordinator/cluster-scene.ts";
import { ManualClock } from "../support/manual-clock.ts";

/** A worker that does what a test says. */
interface Puppet {
  readonly id: number;
  readonly port: PairedPort;
  readonly primary: Peer<WorkerTopics, PrimaryTopics>;
  wasKilled: boolean;
  exit(why: string): void;
  beat(): void;
}

/** A clock whose machine may sleep: time is gone, and no timer fired. */
class SleepingClock extends ManualClock {
  private slept = 0;

  sleep(duration: number): void {
    this.slept += duration;
  }

  override now(): number {
    return super.now() + this.slept;
  }
}

let clock: SleepingClock;
let supervisor: Supervisor;
let puppets: Puppet[];
let lost: string[];

beforeEach(() => {
  clock = new SleepingClock();
  puppets = [];
  lost = [];
  supervisor = new Supervisor({
    clock,
    log: createLogger("silent"),
    count: 2,
    spawn,
    adopt: () => {},
    lost: (worker: Worker, unasked) => void lost.push(`${worker.id} ${unasked ?? "asked"}`),
  });
});

afterEach(async () => {
  for (const puppet of puppets) puppet.exit("SIGKILL");
  await settle();
});

function spawn() {
  const [ours, theirs] = portPair();
  let exited: (why: string) => void = () => {};
  const id = puppets.length + 1;
  const primary = new Peer<WorkerTopics, PrimaryTopics>(theirs, clock);
  const puppet: Puppet = {
    id,
    port: theirs,
    primary,
    wasKilled: false,
    exit(why) {
      theirs.close();
      exited(why);
    },
    beat: () => primary.tell("beat", { upstreams: [], redis: { configured: false } }),
  };
  puppets.push(puppet);
  return {
    id,
    pid: id,
    port: ours,
    kill() {
      puppet.wasKilled = true;
      puppet.exit("SIGKILL");
    },
    onExit(listener: (why: string) => void) {
      exited = listener;
    },
  };
}

async function started(): Promise<void> {
  const start = supervisor.start();
  for (const { primary } of puppets) primary.tell("listening", 8080);
  expect(await start).toBe(8080);
}

/** Lets time go by with these workers beating twice a second. */
async function pass(milliseconds: number, alive: readonly Puppet[]): Promise<void> {
  for (let gone = 0; gone < milliseconds; gone += 500) {
    for (const puppet of alive) puppet.beat();
    await settle();
    clock.advance(500);
    await settle();
  }
}

it("is started when all workers answer", async () => {
  await started();
  expect(supervisor.listening.map(({ id }) => id)).toEqual([1, 2]);
});

it("cannot start when a worker cannot begin", async () => {
  const start = supervisor.start();
  const [first, second] = puppets;
  first!.primary.tell("listening", 8080);
  second!.primary.tell("failed", "the port is taken");
  await expect(start).rejects.toThrow("the port is taken");
});

it("replaces a worker that crashes at once", async () => {
  await started();
  puppets[0]!.exit("SIGSEGV");
  await settle();
  expect(lost).toEqual(["1 crashed"]);
  expect(supervisor.all.map(({ id }) => id)).toEqual([2, 3]);
});

it("waits longer and longer before it replaces workers that end right after they began", async () => {
  await started();
  const pauses: number[] = [];
  for (let i = 0; i < 10; i += 1) {
    const before = clock.now();
    const count = puppets.length;
    puppets.at(-1)!.exit("exit code 1");
    await settle();
    while (puppets.length === count) await pass(250, [puppets[0]!]);
    pauses.push(clock.now() - before);
  }
  expect(pauses[0]).toBe(0);
  expect(pauses.slice(3)).toEqual(pauses.slice(3).sort((a, b) => a - b));
  expect(pauses.at(-1)).toBeGreaterThan(20_000);
  expect(Math.max(...pauses)).toBeLessThan(31_000);
});

it("begins again without a pause when a worker had lived long", async () => {
  await started();
  puppets[1]!.exit("exit code 1");
  await settle();
  puppets[2]!.primary.tell("listening", 8080);
  await pass(12_000, [puppets[0]!, puppets[2]!]);
  puppets[2]!.exit("exit code 1");
  await settle();
  expect(puppets).toHaveLength(4);
});

it("ends and replaces a worker that is silent for ten seconds", async () => {
  await started();
  await pass(9_500, [puppets[0]!]);
  expect(puppets[1]!.wasKilled).toBe(false);
  await pass(2_000, [puppets[0]!]);
  expect(puppets[1]!.wasKilled).toBe(true);
  expect(puppets[0]!.wasKilled).toBe(false);
  expect(lost).toEqual(["2 hung"]);
  expect(puppets).toHaveLength(3);
});

it("gives a worker more time to begin than to answer, but not for ever", async () => {
  await started();
  puppets[1]!.exit("SIGKILL");
  await settle();
  await pass(29_000, [puppets[0]!]);
  expect(puppets[2]!.wasKilled).toBe(false);
  await pass(3_000, [puppets[0]!]);
  expect(puppets[2]!.wasKilled).toBe(true);
});

it("does not blame workers for a pause of its own", async () => {
  await started();
  await pass(1_000, puppets);
  // The whole machine slept: timers fire late, and no beat was heard in between.
  clock.sleep(3_600_000);
  clock.advance(500);
  await pass(1_000, puppets);
  expect(puppets.map(({ wasKilled }) => wasKilled)).toEqual([false, false]);
});

it("when stopping, lets workers finish, ends those that do not, and replaces none", async () => {
  await started();
  const told: number[] = [];
  for (const { id, primary } of puppets) {
    primary.answer("drain", () => {
      told.push(id);
      return undefined;
    });
  }
  const stopped = supervisor.stop(3_000);
  await settle();
  expect(told).toEqual([1, 2]);
  puppets[0]!.exit("exit code 0");
  await settle();
  clock.advance(3_100);
  await settle();
  await stopped;
  expect(puppets.map(({ wasKilled }) => wasKilled)).toEqual([false, true]);
  expect(lost).toEqual(["1 asked", "2 asked"]);
  expect(puppets).toHaveLength(2);
});
