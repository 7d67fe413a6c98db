import type { Duration } from "../clock.ts";
import type { MendedUrl } from "./prober.ts";
import type { RegistryState } from "./report.ts";

/** `partial`: some sources, or registries that they list, could not be read or proved. */
export const RUN_OUTCOMES = ["success", "partial", "failure"] as const;
export type RunOutcome = (typeof RUN_OUTCOMES)[number];

/** A registry that something is reported of. */
interface ReportedRegistry {
  readonly name: string;
  readonly admin: string;
}

/** One with where it is listed, and at how many URLs. */
export interface ListedRegistry extends ReportedRegistry {
  readonly source: string;
  readonly nodes: number;
}

/** Is notified of what discovery does, each time that it is so; for metrics and logs. Must not throw. */
export interface DiscoveryObserver {
  ran(outcome: RunOutcome): void;
  /** `fault`: a sentence; undefined: it was read. */
  sourceRead(source: string, fault: string | undefined): void;
  /** A source lists fewer registries than before: those that are used stay. */
  sourceShrank(source: string, before: number, now: number): void;
  /** These are the sources from now on, and they are read so often. */
  sources(names: readonly string[], every: Duration): void;
  /** A search has ended: what it said of sources, registries and the file of the pins is so no more. */
  ended(): void;
  registries(counts: Readonly<Record<RegistryState, number>>): void;
  /** A registry is used from now on, or at other URLs: their digest. */
  pinned(registry: ListedRegistry, digest: string): void;
  /** A URL is published wrongly, and used as it was meant. */
  mended(registry: ReportedRegistry, url: MendedUrl): void;
  /** What is listed waits for an operator. */
  waiting(registry: ListedRegistry): void;
  /** A URL that is listed for the registry is one of another admin. */
  stranger(registry: ReportedRegistry, named: string): void;
  /** Nothing at the URLs of a registry has proved its admin. */
  unproved(registry: ReportedRegistry, why: string): void;
  /** More registries are listed than may be used. */
  tooMany(max: number, listed: number): void;
  /** URLs that a reading did not ask, since their hosts were asked enough. */
  unasked(urls: number): void;
  /** The file of the pins: what is wrong with it; undefined: nothing any more. */
  pinFile(fault: string | undefined): void;
  /** There was no file of pins at the start; `fromRedis` pins came from what replicas share. */
  pinsBegunAnew(fromRedis: number): void;
  /** What was found cannot be put to use. */
  failed(why: string): void;
}
