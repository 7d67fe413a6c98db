import { readTextFile } from "../config/text-file.ts";
import type { Clock, Duration } from "../clock.ts";
import { type Change, diffConfig } from "../config/diff.ts";
import type { Environment } from "../config/environment.ts";
import { asData, type Schema } from "../config/keys.ts";
import { parseConfig, type ParsedConfig } from "../config/parse.ts";
import { type Config, configSchema } from "../config/schema.ts";
import type { FileWatcher } from "../config/watched-files.ts";
import { isObject } from "../json.ts";
import type { Logger } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import { withoutSecrets } from "../observe/redaction.ts";
import type { ReloadReport, ReportedProblem } from "../operations/config-report.ts";

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
  readonly metrics: Pick<Metrics, "reloads" | "lastReloadGood">;
  readonly clock: Clock;
  readonly files: FileWatcher;
}

/** A text that may be half of one that is being written has to stay the same this long. */
const DOUBT: Duration = 5_000;

/** Why a reload happens. */
export type ReloadCause = ReloadReport["cause"];

/**
 * Puts the configuration file to use anew: all of it or nothing, and one reload after the other. What it says last is
 * in use, or a log line and a metric say why not. Files that upstreams' `auth` and `tls`, `listen.tls` and `clients` name
 * keep nothing else out: where one is no good, what it is for goes on with what it had.
 */
export class Reloader {
  private readonly options: ReloaderOptions;
  /** In use now; undefined where a file that it names is to be tried again. */
  private applied: string | undefined;
  /** How many keys the text gives that is in use. */
  private givenCount: number;
  /** Read last, good or not; undefined: there was no file. */
  private tried: string | undefined;
  /** Ends the watch of the file. */
  private unfollow: (() => void) | undefined;
  /** Ends the watch of files that it names and that may become good. */
  private stopWaiting: (() => void) | undefined;
  private turn: Promise<void> = Promise.resolve();
  private report: ReloadReport | undefined;

  constructor(options: ReloaderOptions) {
    this.options = options;
    this.applied = options.text;
    this.tried = options.text;
    this.givenCount = this.parse(options.text).givenCount;
  }

  /** What became of the last reload; undefined before the first. */
  get last(): ReloadReport | undefined {
    return this.report;
  }

  /** Reloads from now on when the file changes, or one that it names and without which it could not be used. */
  start(): void {
    const { file, files } = this.options;
    this.unfollow = files.watch({ files: [file], take: (steadyFor) => this.take(steadyFor) });
  }

  stop(): void {
    this.unfollow?.();
    this.stopWaiting?.();
  }

  /**
   * Whether the text may be half of one that is being written in place: it ends within a line or a structure, gives
   * fewer keys than the one in use, or lacks an upstream of it.
   */
  private isDoubtful(text: string | undefined): boolean {
    if (text === undefined) return false;
    const { usable, problems, givenCount } = this.parse(text);
    const lastLine = text.trimEnd().split("\n").length;
    if (!text.endsWith("\n") || problems.some(({ line }) => line >= lastLine)) return true;
    if (usable === undefined) return false;
    const names = new Set(usable.upstreams.map(({ name }) => name));
    return givenCount < this.givenCount || this.options.target.config.upstreams.some(({ name }) => !names.has(name));
  }

  /** Reads the file and puts it to use, after the reloads asked for before. Never rejects. */
  reload(cause: ReloadCause): Promise<void> {
    this.turn = this.turn.then(() => this.run(cause));
    return this.turn;
  }

  /** False: the text may be half of one that is being written. */
  private async take(steadyFor: Duration): Promise<boolean> {
    const text = readText(this.options.file);
    // What could not be read, as there were no descriptors left, may be as it was when it can be.
    const isRead = text !== undefined;
    if (text === this.tried) return isRead;
    if (steadyFor < DOUBT && this.isDoubtful(text)) return false;
    await this.reload("file");
    return isRead;
  }

  /** @param named files → their versions when they were read */
  private waitFor(named: ReadonlyMap<string, string>): void {
    this.stopWaiting?.();
    // A reload that ran after the last look for changes waits for nothing.
    if (this.unfollow === undefined || named.size === 0) return;
    this.stopWaiting = this.options.files.watch({
      files: [...named.keys()],
      known: [...named.values()].join(" "),
      take: async () => {
        await this.reload("file");
        return true;
      },
    });
  }

  private parse(text: string): ParsedConfig {
    const { file, env } = this.options;
    return parseConfig({ text, file, env });
  }

  private async run(cause: ReloadCause): Promise<void> {
    const text = readText(this.options.file);
    this.tried = text;
    this.stopWaiting?.();
    this.stopWaiting = undefined;
    if (text === undefined) return this.refuse(cause, [{ path: "", message: "the file cannot be read" }]);
    if (text === this.applied) return this.leave(cause);
    const parsed = this.parse(text);
    const { config, usable, problems, files } = parsed;
    if (config === undefined) this.waitFor(files);
    if (usable === undefined) return this.refuse(cause, problems);
    await this.apply(cause, text, { ...parsed, usable });
  }

  private async apply(
    cause: ReloadCause,
    text: string,
    { usable, problems, files, givenCount }: ParsedConfig & { readonly usable: Config },
  ): Promise<void> {
    const { target, log } = this.options;
    const changes = diffConfig(target.config, usable);
    try {
      await target.reload(withoutRestart(target.config, usable));
    } catch (error) {
      this.waitFor(files);
      return this.refuse(cause, [{ path: "", message: error instanceof Error ? error.message : String(error) }]);
    }
    this.applied = problems.length === 0 ? text : undefined;
    this.givenCount = givenCount;
    const changed = pathsOf(changes, "reload");
    const needRestart = pathsOf(changes, "restart");
    this.note({ cause, result: "applied", changed, needRestart, problems: withoutSecretsIn(problems) });
    log.info({ cause, changed }, "configuration reloaded");
    if (needRestart.length > 0) {
      log.warn({ changed: needRestart }, "these changes of the configuration need a restart and have no effect yet");
    }
    if (problems.length > 0) {
      log.error(
        { problems: withoutSecretsIn(problems) },
        "files that the configuration names are no good: what was read of them before stays in use",
      );
    }
  }

  /** The file says what is in use. */
  private leave(cause: ReloadCause): void {
    this.note({ cause, result: "unchanged", changed: [], needRestart: [], problems: [] });
    this.options.log.info({ cause }, "configuration unchanged");
  }

  private refuse(cause: ReloadCause, problems: readonly ReportedProblem[]): void {
    const reported = withoutSecretsIn(problems);
    this.note({ cause, result: "refused", changed: [], needRestart: [], problems: reported });
    this.options.log.error({ cause, problems: reported }, "configuration refused: the one in use stays");
  }

  private note(report: Omit<ReloadReport, "at">): void {
    const { clock, metrics } = this.options;
    this.report = { at: new Date(clock.wallNow()).toISOString(), ...report };
    metrics.reloads.inc({ result: report.result });
    metrics.lastReloadGood.set(report.result === "refused" ? 0 : 1);
  }
}

/** Problems as they may stand in a log line, or be shown to operators. */
function withoutSecretsIn(problems: readonly ReportedProblem[]): ReportedProblem[] {
  return problems.map(({ line, path, message }) => {
    return { ...(line === undefined ? {} : { line }), path, message: withoutSecrets(message) };
  });
}

/** What `file` holds; undefined when it cannot be read. */
function readText(file: string): string | undefined {
  try {
    return readTextFile(file);
  } catch {
    return undefined;
  }
}

function pathsOf(changes: readonly Change[], effect: Change["effect"]): string[] {
  return changes.filter((change) => change.effect === effect).map(({ path }) => path);
}

/**
 * What `next` can become without a restart: its keys, but for those that take effect at the next start only, which
 * stay as they are in `running`.
 */
function withoutRestart(running: Config, next: Config): Config {
  return merge(asData(configSchema), running, next) as Config;
}

function merge(schema: Schema, running: unknown, next: unknown): unknown {
  if (schema.restart === true) return running;
  if (schema.properties === undefined || !isObject(running) || !isObject(next)) return next;
  const merged: Record<string, unknown> = {};
  for (const [key, keySchema] of Object.entries(schema.properties)) {
    const value = merge(keySchema, running[key], next[key]);
    // A key that is off is absent: code asks with `in` and `=== undefined` alike.
    if (value !== undefined) merged[key] = value;
  }
  return merged;
}
