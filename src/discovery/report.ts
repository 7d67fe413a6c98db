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
