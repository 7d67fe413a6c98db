import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Registry } from "./plan.ts";

/** A registry, and where its nodes listen. */
export interface PlacedRegistry extends Registry {
  readonly ports: readonly number[];
}

/** What a contestant gets to know before the day. */
export interface Scene {
  readonly registries: readonly PlacedRegistry[];
  /** A folder of its own. */
  readonly folder: string;
}

/** One way to reach registries. A file of `contestants` has each, with its configuration. */
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

/** Writes a file into the scene's folder; returns its path. */
export function writeConfiguration({ folder }: Scene, name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}
