import { afterEach, beforeEach, expect, test } from "vitest";
import { configFromFlags } from "../../src/config/flags.ts";
import { createLogger } from "../../src/observe/log.ts";
import { NOTHING_FOUND } from "../../src/upstream/found.ts";
import { Supervisor } from "../../src/workers/supervisor.ts";
import { settle } from "../support/workers-scene.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { type Puppet, spawnPuppet } from "../support/puppet.ts";

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

const state = {
  cache: { memory: { entries: 0, bytes: 0, maxBytes: 0 } },
  redis: { configured: false },
  inForce: [],
  certificates: [],
  upstreams: [],
} as const;

const config = configFromFlags({ upstreams: ["http://127.0.0.1:9"] });

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
    spawn: () => spawnPuppet(puppets, clock),
    adopt: () => {},
    boot: ({ id }) => ({ id, config, found: NOTHING_FOUND }),
    lost: ({ id }, unasked) => void lost.push(`${id} ${unasked ?? "asked"}`),
  });
});

afterEach(async () => {
  const stopped = supervisor.stop(1_000);
  for (const puppet of puppets) puppet.exit("SIGKILL");
  await stopped;
});

/** Workers 1 and 2 answer. */
async function started(): Promise<void> {
  const start = supervisor.start();
  for (const puppet of puppets) puppet.load();
  expect(await start).toBe(8080);
}

/** Everything that was started loads. */
async function loadAll(): Promise<void> {
  for (const puppet of puppets) if (!puppet.isAlive) puppet.load();
  await settle();
}

/** Lets time go by, with these silent and all others that live beating twice a second. */
async function pass(milliseconds: number, silent: readonly Puppet[] = []): Promise<void> {
  for (let gone = 0; gone < milliseconds; gone += 500) {
    for (const puppet of puppets) {
      if (puppet.isAlive && !silent.includes(puppet)) puppet.primary.tell("beat", state);
    }
    await settle();
    clock.advance(500);
    await settle();
  }
}

const listening = () => supervisor.listening.map(({ id }) => id);

test("is started when all workers answer", async () => {
  await started();
  expect(listening()).toEqual([1, 2]);
});

test("cannot start when a worker cannot begin", async () => {
  const start = supervisor.start();
  puppets[1]!.failure = "the port is taken";
  for (const puppet of puppets) puppet.load();
  await expect(start).rejects.toThrow("the port is taken");
});

test("starts another one at once when a worker crashes, which begins as soon as it has loaded", async () => {
  await started();
  await pass(60_000);
  puppets[0]!.exit("SIGSEGV");
  await settle();
  expect(lost).toEqual(["1 crashed"]);
  expect(supervisor.all.map(({ id, isListening }) => [id, isListening])).toEqual([
    [2, true],
    [3, false],
  ]);
  await loadAll();
  expect(listening()).toEqual([2, 3]);
});

/** How long it takes each time until another one is started when `next` ends, ten times. */
async function pausesAfter(next: () => Puppet): Promise<number[]> {
  const pauses: number[] = [];
  for (let i = 0; i < 10; i += 1) {
    const before = clock.now();
    const count = puppets.length;
    next().exit("exit code 1");
    await settle();
    while (puppets.length === count) await pass(250);
    pauses.push(clock.now() - before);
    await loadAll();
  }
  return pauses;
}

test("waits longer and longer before it replaces workers that end right after they began", async () => {
  await started();
  const pauses = await pausesAfter(() => puppets.findLast(({ hasBegun }) => hasBegun)!);
  expect(pauses[0]).toBe(0);
  expect(pauses.slice(3)).toEqual(pauses.slice(3).sort((a, b) => a - b));
  expect(pauses.at(-1)).toBeGreaterThan(20_000);
  expect(Math.max(...pauses)).toBeLessThan(31_000);
});

test("begins again without a pause when a worker had answered for more than five seconds", async () => {
  await started();
  for (let i = 0; i < 4; i += 1) {
    const victim = puppets.findLast(({ hasBegun }) => hasBegun)!;
    const count = puppets.length;
    victim.exit("exit code 1");
    await settle();
    expect(puppets).toHaveLength(count + 1);
    await loadAll();
    expect(listening()).toHaveLength(2);
    await pass(5_500);
  }
});

test("ends and replaces a worker that is silent for ten seconds", async () => {
  await started();
  await pass(9_500, [puppets[1]!]);
  expect(puppets[1]!.wasKilled).toBe(false);
  await pass(2_000, [puppets[1]!]);
  expect(puppets[1]!.wasKilled).toBe(true);
  expect(puppets[0]!.wasKilled).toBe(false);
  expect(lost).toEqual(["2 hung"]);
  await loadAll();
  expect(listening()).toEqual([1, 3]);
});

test("gives a worker more time to begin than to answer, but not for ever", async () => {
  await started();
  puppets[1]!.exit("SIGKILL");
  await settle();
  await pass(29_000);
  expect(puppets[2]!.wasKilled).toBe(false);
  await pass(3_000);
  expect(puppets[2]!.wasKilled).toBe(true);
});

test("does not blame workers for a pause of its own", async () => {
  await started();
  await pass(1_000);
  // The whole machine slept: timers fire late, and no beat was heard in between.
  clock.sleep(3_600_000);
  clock.advance(500);
  await pass(1_000);
  expect(puppets.map(({ wasKilled }) => wasKilled)).toEqual([false, false]);
});

test("when stopping, lets workers finish, ends those that do not, and replaces none", async () => {
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

test("when stopping, does not wait for a worker that has not begun", async () => {
  await started();
  puppets[0]!.exit("SIGKILL");
  await settle();
  const stopped = supervisor.stop(3_000);
  expect(puppets[2]!.wasKilled).toBe(true);
  puppets[1]!.exit("exit code 0");
  await stopped;
  expect(puppets).toHaveLength(3);
});
