import { readFile } from "node:fs/promises";
import type { Clock } from "../clock.ts";
import { type Change, diffConfig } from "../config/diff.ts";
import type { Environment } from "../config/environment.ts";
import { parseConfig } from "../config/parse.ts";
import type { Problem } from "../config/problem.ts";
import type { Config } from "../config/schema.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { withoutSecrets } from "../redaction.ts";
import { withoutRestart } from "./restart-only.ts";

/** What can take another configuration while it runs. */
export interface Reloadable {
  /** In use now. */
  readonly config: Config;
  /** Puts another one to use, or rejects and leaves everything as it was. */
  reload(config: Config): Promise<void>;
}

export interface ReloaderOptions {
  readonly file: string;
  readonly env: Environment;
  /** What the file held when it was read for the start. */
  readonly text: string;
  readonly target: Reloadable;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "reloads" | "lastReloadGood" | "lastReloadTime">;
  readonly clock: Clock;
}

/** Why a reload happens. */
export type ReloadCause = "signal" | "file";

/**
 * Puts the configuration file to use anew: all of it or nothing, and one reload after the other. What it says last is
 * in use, or a log line and a metric say why not.
 */
export class Reloader {
  private readonly options: ReloaderOptions;
  /** In use now. */
  private applied: string;
  /** Read last, good or not; undefined: there was no file. */
  private tried: string | undefined;
  private turn: Promise<void> = Promise.resolve();

  constructor(options: ReloaderOptions) {
    this.options = options;
    this.applied = options.text;
    this.tried = options.text;
  }

  /** Whether a file with this text (undefined: no file) was looked at already. */
  hasTried(text: string | undefined): boolean {
    return text === this.tried;
  }

  /** Reads the file and puts it to use, after the reloads asked for before. Never rejects. */
  reload(cause: ReloadCause): Promise<void> {
    this.turn = this.turn.then(() => this.run(cause));
    return this.turn;
  }

  private async run(cause: ReloadCause): Promise<void> {
    const { file, env } = this.options;
    const text = await readText(file);
    this.tried = text;
    if (text === undefined) return this.refuse(cause, [{ path: "", message: "the file cannot be read" }]);
    if (text === this.applied) return this.leave(cause);
    const { config, problems } = parseConfig({ text, file, env });
    if (config === undefined) return this.refuse(cause, problems);
    await this.apply(cause, config, text);
  }

  private async apply(cause: ReloadCause, config: Config, text: string): Promise<void> {
    const { target, log, metrics, clock } = this.options;
    const changes = diffConfig(target.config, config);
    try {
      await target.reload(withoutRestart(target.config, config));
    } catch (error) {
      return this.refuse(cause, [{ path: "", message: error instanceof Error ? error.message : String(error) }]);
    }
    this.applied = text;
    metrics.reloads.inc({ result: "applied" });
    metrics.lastReloadGood.set(1);
    metrics.lastReloadTime.set(clock.wallNow() / 1000);
    log.info({ cause, changed: pathsOf(changes, "reload") }, "configuration reloaded");
    const needRestart = pathsOf(changes, "restart");
    if (needRestart.length > 0) {
      log.warn({ changed: needRestart }, "these changes of the configuration need a restart and have no effect yet");
    }
  }

  /** The file says what is in use. */
  private leave(cause: ReloadCause): void {
    const { log, metrics } = this.options;
    metrics.reloads.inc({ result: "unchanged" });
    metrics.lastReloadGood.set(1);
    log.info({ cause }, "configuration unchanged");
  }

  private refuse(
    cause: ReloadCause,
    problems: readonly (Pick<Problem, "path" | "message"> & Partial<Problem>)[],
  ): void {
    const { log, metrics } = this.options;
    metrics.reloads.inc({ result: "refused" });
    metrics.lastReloadGood.set(0);
    const told = problems.map(({ line, path, message }) => ({ line, path, message: withoutSecrets(message) }));
    log.error({ cause, problems: told }, "configuration refused: the one in use stays");
  }
}

/** What `file` holds; undefined when it cannot be read. */
export async function readText(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch {
    return undefined;
  }
}

function pathsOf(changes: readonly Change[], effect: Change["effect"]): string[] {
  return changes.filter((change) => change.effect === effect).map(({ path }) => path);
}
