import type { MendedUrl } from "./prober.ts";
import type { RegistryState } from "./report.ts";

/** `partial`: some sources, or registries that they list, could not be read or proved. */
export const RUN_OUTCOMES = ["success", "partial", "failure"] as const;
export type RunOutcome = (typeof RUN_OUTCOMES)[number];

/** What is reported of a registry. */
export interface RegistryEvent {
  readonly name: string;
  readonly admin: string;
  readonly source: string;
  readonly nodes: number;
}

/** Is notified of what discovery does; for metrics and logs. Must not throw. */
export interface DiscoveryObserver {
  ran(outcome: RunOutcome): void;
  /** `fault`: a sentence; undefined: it was read. `isNew`: worth a line. */
  sourceRead(source: string, look: { readonly fault: string | undefined; readonly isNew: boolean }): void;
  /** A source lists fewer registries than before: those that are used stay. */
  sourceShrank(source: string, before: number, now: number): void;
  /** These are the sources from now on. */
  sources(names: readonly string[]): void;
  registries(counts: Readonly<Record<RegistryState, number>>): void;
  /** A registry is used from now on, or at other URLs. */
  pinned(event: RegistryEvent): void;
  /** A URL is published wrongly, and used as it was meant. */
  mended(name: string, url: MendedUrl): void;
  /** What is listed waits for an operator. */
  waiting(event: RegistryEvent): void;
  /** A URL that is listed for the registry is one of another admin. */
  stranger(name: string, named: string): void;
  /** Nothing at the URLs of a registry has proved its admin. */
  unproved(name: string, why: string): void;
  /** More registries are listed than may be used. */
  tooMany(max: number, listed: number): void;
  /** URLs that a reading did not ask, since their hosts were asked enough. */
  unasked(urls: number): void;
  /** The file of the pins: what is wrong with it; undefined: nothing any more. */
  pinFile(fault: string | undefined): void;
  /** There was no file of pins at the start; so many came from what replicas share. */
  pinsBegunAnew(fromRedis: number): void;
  /** What was found cannot be put to use. */
  failed(why: string): void;
}
