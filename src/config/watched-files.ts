import { statSync, type Stats } from "node:fs";
import { stat } from "node:fs/promises";
import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import { faultOfFile } from "./text-file.ts";

/** Between two looks at all files. */
const LOOK_EVERY: Duration = 500;

/**
 * Files that are asked for at once. Where a file system hangs, each takes one of the four threads that Node looks names up
 * with, too, and others have to remain.
 */
const MOST_ASKED = 2;

/** Files that may be half of what is being written, or of two that belong together, have to stay the same for this long. */
export const DOUBT: Duration = 2_000;

interface FileWatch {
  readonly files: readonly string[];
  /**
   * Their versions when they were read (see {@link versionOf}), joined by a space. Without them, the first looks offer the
   * files once.
   */
  readonly known?: string;
  /**
   * Called when the files are others than before, and were seen so twice in a row, or change all the time. False: they are
   * offered again at the next look. Never throws.
   *
   * @param steadyFor how long they have been as they are now
   */
  readonly take: (steadyFor: Duration) => boolean | Promise<boolean>;
}

/** Files that are not in use as they are now. */
interface Sight {
  readonly versions: string;
  readonly since: Instant;
  /** They are others than those in use. */
  readonly changingSince: Instant;
}

/**
 * Looks at every file that is read again while the gateway runs, twice a second. It asks the file system, since `fs.watch`
 * follows an inode or a folder: writes in place, renames, network file systems, and links that container platforms swap
 * are all seen. One process has one of these.
 */
export class FileWatcher {
  readonly clock: Clock;
  private readonly onLost: (file: string) => void;
  private readonly watched = new Set<(see: (file: string) => Promise<string>) => Promise<void>>();
  /** Files without a name that were reported. */
  private readonly lost = new Set<string>();
  private cancelTimer: CancelTimer | undefined;
  private asked = 0;
  /** Those who wait for their turn to ask. */
  private readonly waiting: (() => void)[] = [];

  /**
   * @param onLost called once for a file whose inode has no name any more: it was mounted singly, and another took its name
   * outside of the container. Changes of it are never seen
   */
  constructor(clock: Clock, onLost: (file: string) => void = () => undefined) {
    this.clock = clock;
    this.onLost = onLost;
  }

  /** Begins to look at files. Returns what ends it. */
  watch(watch: FileWatch): () => void {
    const look = this.looks(watch);
    this.watched.add(look);
    this.cancelTimer ??= this.schedule();
    return () => {
      this.watched.delete(look);
      if (this.watched.size > 0) return;
      this.cancelTimer?.();
      this.cancelTimer = undefined;
    };
  }

  /** Looks at all files once, or waits for the look that is under way. */
  async look(): Promise<void> {
    // A file that several places name is asked for once.
    const seen = new Map<string, Promise<string>>();
    const see = (file: string): Promise<string> => {
      const version = seen.get(file) ?? this.see(file);
      seen.set(file, version);
      return version;
    };
    await Promise.all([...this.watched].map((look) => look(see)));
  }

  private schedule(): CancelTimer {
    return this.clock.after(LOOK_EVERY, () => {
      // One file whose file system hangs holds up no other; several do, until it answers.
      this.cancelTimer = this.schedule();
      void this.look();
    });
  }

  private looks({ files, known, take }: FileWatch): (see: (file: string) => Promise<string>) => Promise<void> {
    const { clock } = this;
    let used = known;
    let seen: Sight | undefined;
    let running: Promise<void> | undefined;
    const look = async (see: (file: string) => Promise<string>): Promise<void> => {
      const versions = (await Promise.all(files.map(see))).join(" ");
      const now = clock.now();
      if (versions === used) {
        seen = undefined;
        return;
      }
      const isSeenAgain = seen?.versions === versions;
      seen = {
        versions,
        since: isSeenAgain ? seen!.since : now,
        changingSince: seen?.changingSince ?? now,
      };
      if (!isSeenAgain && now - seen.changingSince < DOUBT) return;
      if (!(await take(now - seen.since))) return;
      used = versions;
      seen = undefined;
    };
    return (see) =>
      (running ??= look(see).finally(() => {
        running = undefined;
      }));
  }

  private async see(file: string): Promise<string> {
    const stats = await this.ask(file);
    if (stats?.nlink !== 0) this.lost.delete(file);
    else if (!this.lost.has(file)) {
      this.lost.add(file);
      this.onLost(file);
    }
    return describe(stats);
  }

  private async ask(file: string): Promise<Stats | undefined> {
    if (this.asked < MOST_ASKED) this.asked += 1;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
    const stats = await stat(file).catch(() => undefined);
    const next = this.waiting.shift();
    if (next === undefined) this.asked -= 1;
    else next();
    return stats;
  }
}

/** Distinguishes one state of a file from another: rewritten, replaced, or behind a link that was changed. Never throws. */
export function versionOf(file: string): string {
  try {
    return describe(statSync(file));
  } catch {
    return describe(undefined);
  }
}

function describe(stats: Stats | undefined): string {
  if (stats === undefined) return "absent";
  const { dev, ino, size, mtimeMs, ctimeMs } = stats;
  return `${dev}:${ino}:${size}:${mtimeMs}:${ctimeMs}`;
}

interface WatchOptions<Value> {
  readonly watcher: FileWatcher;
  readonly files: readonly string[];
  /** Reads and checks them. @throws when what they hold is no good */
  readonly read: () => Value;
  /** An earlier watch: where it was of the same files, what it has stays in use as long as nothing better can be read. */
  readonly previous?: WatchedFiles<Value> | undefined;
  /** Called at each reading: why the files are no good, or undefined. */
  readonly onRead: (fault: string | undefined) => void;
}

/**
 * A value made from files, made again within a second and a half after one of them changed. What is read is checked before
 * it takes the place of the last good value, which stays in use otherwise.
 */
export class WatchedFiles<Value> {
  private readonly options: WatchOptions<Value>;
  private value: Value | undefined;
  private readAt: Instant = -Infinity;
  private readonly end: () => void;

  /** Reads at once, and looks for changes until {@link close}. */
  constructor(options: WatchOptions<Value>) {
    const { watcher, files, previous, onRead } = options;
    this.options = options;
    const isSame = previous?.options.files.join("\n") === files.join("\n");
    this.value = isSame ? previous?.value : undefined;
    onRead(this.read());
    this.end =
      files.length === 0 ? () => undefined : watcher.watch({ files, take: (steadyFor) => this.take(steadyFor) });
  }

  /** What was good last; undefined where nothing ever was. */
  get current(): Value | undefined {
    return this.value;
  }

  /** Reads now, where the last reading is older than half a second: the value was found to be out of date. */
  readNow(): void {
    const { watcher, files, onRead } = this.options;
    if (files.length === 0 || watcher.clock.now() - this.readAt < LOOK_EVERY) return;
    if (this.read() === undefined) onRead(undefined);
  }

  close(): void {
    this.end();
  }

  private take(steadyFor: Duration): boolean {
    const fault = this.read();
    // A certificate comes before its key, and some begin to be good with time: what is no good is read again and again.
    if (fault === undefined || steadyFor >= DOUBT) this.options.onRead(fault);
    return fault === undefined;
  }

  /** What is wrong with the files; undefined: what they hold is in use. */
  private read(): string | undefined {
    const { watcher, read } = this.options;
    this.readAt = watcher.clock.now();
    try {
      this.value = read();
      return undefined;
    } catch (error) {
      return faultOfFile(error);
    }
  }
}
