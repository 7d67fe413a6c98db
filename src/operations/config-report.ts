import { defaultedKeys } from "../config/diff.ts";
import { presentConfig } from "../config/print.ts";
import type { Problem } from "../config/problem.ts";
import type { Config } from "../config/schema.ts";

/** What became of the configuration file the last time that it was read while the gateway ran. */
export interface ReloadReport {
  readonly at: string;
  readonly cause: "signal" | "file";
  /** `unchanged`: the file says what is in use. `refused`: what was in use stays. */
  readonly result: "applied" | "unchanged" | "refused";
  /** Keys that took effect. */
  readonly changed: readonly string[];
  /** Keys that changed, and take effect at the next start only. */
  readonly needRestart: readonly string[];
  /** Why it was refused; or, where it was applied, which files that it names are no good. */
  readonly problems: readonly ReportedProblem[];
}

/** A problem without what could be a secret. */
export type ReportedProblem = Pick<Problem, "path" | "message"> & Partial<Pick<Problem, "line">>;

/** What `GET /config` answers. */
export interface ConfigReport {
  /** In use, in the form of the file, secrets replaced by `***`. */
  readonly config: unknown;
  /** The keys in it that are as they would be if the file did not give them; upstreams are named, not numbered. */
  readonly defaults: readonly string[];
  /** Null: not since the gateway began. */
  readonly lastReload: ReloadReport | null;
}

export function reportConfig(config: Config, lastReload: ReloadReport | undefined): ConfigReport {
  return { config: presentConfig(config), defaults: defaultedKeys(config), lastReload: lastReload ?? null };
}
