import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { ask, startProcess, stop } from "../bench/child.ts";
import { useFolder } from "../bench/work-folder.ts";
import type { Contestant, RunningContestant, Scene } from "./contestant.ts";
import type { Day, FaultName } from "./plan.ts";
import type {
  RegistriesCommand,
  RegistriesCounts,
  RegistriesOptions,
  RegistriesPorts,
  RegistryCount,
} from "./registries-process.ts";
import { type Usage, UsageSampler } from "./usage.ts";
import type { WalletsOptions } from "./wallets.ts";
import type { WalletsCommand, WalletsReply } from "./wallets-process.ts";

/** A contestant's day. */
export interface DayResult {
  readonly name: string;
  /** Of real time, into which the day was squeezed. */
  readonly minutes: number;
  readonly date: string;
  readonly wallets: WalletsReply;
  /** By the registry's number. */
  readonly registries: readonly RegistryCount[];
  readonly usage: Usage;
  readonly canPurge: boolean;
  readonly canRestart: boolean;
}

/** How long wallets may take to end after the day, on a busy machine. */
const EVENING = 600_000;

/** Has a contestant play the day, every part in a process of its own. */
export async function playDay(contestant: Contestant, day: Day): Promise<DayResult> {
  const work = useFolder("day");
  const stops: (() => Promise<void>)[] = [() => Promise.resolve(work.remove())];
  try {
    const registries = await startProcess("../day/registries-process.ts", { day } satisfies RegistriesOptions);
    stops.push(() => stop(registries.child));
    const { ports } = await ask<RegistriesPorts>(registries.child, { do: "ports" } satisfies RegistriesCommand);
    const folder = join(work.folder, "contestant");
    mkdirSync(folder);
    const scene = { folder, registries: day.registries.map((each, i) => ({ ...each, ports: ports[i]! })) };
    const running = await contestant.start(scene);
    stops.push(() => running.stop());
    const bases = scene.registries.map((registry) => running.bases(registry));
    const options: WalletsOptions = { day, bases, hasAddresses: running.hasAddresses ?? false };
    const wallets = await startProcess("../day/wallets-process.ts", options);
    stops.push(() => stop(wallets.child));

    const sampler = new UsageSampler(() => running.pids());
    stops.push(async () => void sampler.stop());
    const begin = Date.now() + 500;
    registries.child.send({ do: "begin", begin } satisfies RegistriesCommand);
    const notePurge = () => void wallets.child.send({ do: "purged" } satisfies WalletsCommand);
    const operator = operate(running, { day, begin, scene, notePurge });
    const played = ask<WalletsReply>(
      wallets.child,
      { do: "begin", begin } satisfies WalletsCommand,
      day.length + EVENING,
    );
    const [reply] = await Promise.all([played, operator]);
    const usage = sampler.stop();
    const counts = await ask<RegistriesCounts>(registries.child, { do: "count" } satisfies RegistriesCommand);
    return {
      name: contestant.name,
      minutes: day.length / 60_000,
      date: new Date().toISOString().slice(0, 10),
      wallets: reply,
      registries: counts.counts,
      usage,
      canPurge: running.purge !== undefined,
      canRestart: running.restart !== undefined,
    };
  } finally {
    for (const each of stops.toReversed()) await each();
  }
}

interface Watch {
  readonly day: Day;
  readonly begin: number;
  readonly scene: Scene;
  readonly notePurge: () => void;
}

/** What an operator does in the day, each at its moment. */
async function operate(running: RunningContestant, { day, begin, scene, notePurge }: Watch): Promise<void> {
  const at = async (name: FaultName, edge: "from" | "to", act: () => Promise<void> | undefined) => {
    const fault = day.faults.find((each) => each.name === name);
    if (fault === undefined) return;
    await new Promise((resolve) => setTimeout(resolve, begin + fault[edge] - Date.now()));
    await act();
  };
  await Promise.all([
    at("restart", "from", () => running.restart?.()),
    at("purge", "from", async () => {
      if (running.purge === undefined) return;
      const registry = day.faults.find(({ name }) => name === "purge")!.registry!;
      await running.purge(scene.registries[registry]!);
      notePurge();
    }),
    at("Redis gone", "from", () => running.redis?.kill()),
    at("Redis gone", "to", () => running.redis?.start()),
  ]);
}
