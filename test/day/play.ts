import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describeMachine, loadNow } from "../bench/report.ts";
import { ask, newFolder, startModule, stop } from "../support/forks.ts";
import { cpuOf, memoryOf, treeOf } from "../support/usage.ts";
import type { Day, FaultName, Registry } from "./plan.ts";
import type { RegistriesCommand, RegistryCount } from "./registries-process.ts";
import type { WalletsCommand, WalletsOptions, WalletsReply } from "./wallets-process.ts";

/** A registry, and where its nodes listen. */
type PlacedRegistry = Registry & { readonly ports: readonly number[] };

/** What a contestant gets to know before the day, and a folder of its own. */
export type Scene = { readonly registries: readonly PlacedRegistry[]; readonly folder: string };

/** One way to reach registries, with its configuration. */
export interface Contestant {
  /** As the table calls it. */
  readonly name: string;
  start(scene: Scene): Promise<RunningContestant>;
}

export interface RunningContestant {
  /** Base URLs of a registry for wallets, each as good as the others. */
  bases(registry: PlacedRegistry): readonly string[];
  /** Wallets have addresses of their own at the registry: nothing is between. */
  readonly hasAddresses?: boolean;
  /** Its processes now, without their children. */
  pids(): readonly number[];
  /** Forgets the metadata of a registry, where its manual has a way. */
  purge?(registry: PlacedRegistry): Promise<void>;
  /** Replaces its processes, as its manual says it is done in production. */
  restart?(): Promise<void>;
  /** The Redis that it uses. */
  readonly redis?: { kill(): Promise<void>; start(): Promise<void> };
  stop(): Promise<void>;
}

/** A contestant's day: `minutes` of real time, into which it was squeezed; counts by the registry's number. */
export interface DayResult {
  readonly name: string;
  readonly minutes: number;
  readonly machine: string;
  readonly load: string;
  readonly wallets: WalletsReply;
  readonly registries: readonly RegistryCount[];
  readonly usage: Usage;
}

/** Seconds of CPU in the day; those in which nothing is wrong, and bytes at most then, what is shared counted once. */
type Usage = { seconds: number; quiet: number; memory: number };

/** How long wallets may take to end after the day, on a busy machine; how often usage is looked at; how long processes drain. */
const [EVENING, SAMPLE_EVERY, DRAINING] = [600_000, 1_000, 4_000];

/** Has a contestant play the day, every part in a process of its own. */
export async function playDay(contestant: Contestant, day: Day): Promise<DayResult> {
  const load = loadNow();
  const work = newFolder("day");
  await using ending = new AsyncDisposableStack();
  ending.defer(() => work.remove());
  const registries = await startModule(new URL("registries-process.ts", import.meta.url), { day });
  ending.defer(() => stop(registries.child));
  const ports = registries.told as readonly (readonly number[])[];
  const folder = join(work.folder, "contestant");
  mkdirSync(folder);
  const scene = { folder, registries: day.registries.map((each, i) => ({ ...each, ports: ports[i]! })) };
  const running = await contestant.start(scene);
  ending.defer(() => running.stop());
  const bases = scene.registries.map((registry) => running.bases(registry));
  const options: WalletsOptions = { day, bases, hasAddresses: running.hasAddresses ?? false };
  const wallets = await startModule(new URL("wallets-process.ts", import.meta.url), options);
  ending.defer(() => stop(wallets.child));

  const begin = Date.now() + 500;
  const usage = sampleUsage(running, day, begin);
  ending.defer(() => usage.stop());
  registries.child.send({ do: "begin", begin } satisfies RegistriesCommand);
  const command: WalletsCommand = { do: "begin", begin };
  const notePurge = (): void => void wallets.child.send({ do: "purged" } satisfies WalletsCommand);
  const [reply] = await Promise.all([
    ask(wallets.child, command, day.length + EVENING) as Promise<WalletsReply>,
    operate(running, { day, begin, scene, notePurge }),
  ]);
  usage.stop();
  const counts = await ask(registries.child, { do: "count" } satisfies RegistriesCommand);
  return {
    name: contestant.name,
    minutes: day.length / 60_000,
    machine: describeMachine(),
    load,
    wallets: reply,
    registries: counts as readonly RegistryCount[],
    usage: usage.sum,
  };
}

type Watch = { readonly day: Day; readonly begin: number; readonly scene: Scene; readonly notePurge: () => void };

/** What an operator does in the day, each at its moment. */
async function operate(running: RunningContestant, { day, begin, scene, notePurge }: Watch): Promise<void> {
  const at = async (name: FaultName, edge: "from" | "to", act: () => Promise<void> | undefined): Promise<void> => {
    const fault = day.faults.find((each) => each.name === name)!;
    await new Promise((resolve) => setTimeout(resolve, begin + fault[edge] - Date.now()));
    await act();
  };
  await Promise.all([
    at("deploy", "from", () => running.restart?.()),
    at("purge", "from", async () => {
      if (running.purge === undefined) return;
      const { registry } = day.faults.find(({ name }) => name === "purge")!;
      await running.purge(scene.registries[registry!]!);
      notePurge();
    }),
    at("Redis killed", "from", () => running.redis?.kill()),
    at("Redis killed", "to", () => running.redis?.start()),
  ]);
}

/** Adds up what processes use that come and go, from now on. */
function sampleUsage(running: RunningContestant, day: Day, begin: number) {
  const sum: Usage = { seconds: 0, quiet: 0, memory: 0 };
  const before = new Map(treeOf(running.pids()).map((pid) => [pid, cpuOf(pid)]));
  const sample = (): void => {
    const at = Date.now() - begin;
    const isQuiet = at < day.length && !day.faults.some(({ from, to }) => at >= from && at < to + DRAINING);
    let memory = 0;
    for (const pid of treeOf(running.pids())) {
      // One that ends takes its last moments with it.
      const used = Math.max(0, cpuOf(pid) - (before.get(pid) ?? 0));
      before.set(pid, (before.get(pid) ?? 0) + used);
      sum.seconds += used / 1e9;
      if (isQuiet) sum.quiet += used / 1e9;
      memory += memoryOf(pid);
    }
    if (isQuiet) sum.memory = Math.max(sum.memory, memory);
  };
  const timer = setInterval(sample, SAMPLE_EVERY);
  return { sum, stop: () => clearInterval(timer) };
}
