import type { Duration } from "../clock.ts";
import type { PurgeReach } from "../sharing/ports.ts";
import type { MendedUrl } from "./prober.ts";

/**
 * `found`: listed, and nothing at its URLs has proved the admin; not used. `pinned`: used where it was found first or
 * approved. `waiting`: what is listed now waits for an operator; what was pinned before goes on being used. `gone`: used,
 * and no source lists it any more.
 */
export const REGISTRY_STATES = ["found", "pinned", "waiting", "gone"] as const;
export type RegistryState = (typeof REGISTRY_STATES)[number];

/** What is listed, and differs from what is used. */
export interface Proposal {
  readonly urls: readonly string[];
  /** When it was seen first (RFC 3339). */
  readonly since: string;
  readonly source: string;
}

/** A registry that was found. */
export interface RegistryReport {
  readonly admin: string;
  /** Its alias. */
  readonly name: string;
  /** Where it is called; none where it is not used. */
  readonly urls: readonly string[];
  readonly state: RegistryState;
  readonly proposed?: Proposal;
  readonly mended?: readonly MendedUrl[];
  /** The source that it was found by. */
  readonly source: string;
  /** When it was pinned, or else seen first (RFC 3339). */
  readonly since: string;
  /** Why nothing there has proved the admin, with state `found` or `waiting`. */
  readonly problem?: string;
}

/** A source as it was read last. */
export interface SourceReport {
  readonly name: string;
  /** RFC 3339; null: never. */
  readonly lastRun: string | null;
  /** Null: the last reading was good. */
  readonly lastError: string | null;
  /** How many registries it lists, as far as it is known. */
  readonly found: number;
}

/** What `GET /discovery` answers; without `discovery` both are empty. */
export interface DiscoveryReport {
  readonly sources: readonly SourceReport[];
  readonly registries: readonly RegistryReport[];
  /** What is wrong with the file of the pins; null: nothing. */
  readonly pinFileError: string | null;
}

/** What an operator decided about a registry. */
export interface DiscoveryDecision {
  /** Null: it is neither listed nor used any more. */
  readonly registry: RegistryReport | null;
  readonly reach: PurgeReach;
}

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
