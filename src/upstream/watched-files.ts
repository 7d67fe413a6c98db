import { stat } from "node:fs/promises";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { MaybePromise } from "../coordinator/coordinator.ts";

/** A rotated credential is picked up within this time. */
const CHECK_EVERY: Duration = 5_000;

/**
 * A value made from files, made again when one of them changed. Files are looked at when the value is wanted and the
 * last look is older than 5 s; no watcher runs, since container platforms swap mounted secrets behind symbolic links.
 */
export class WatchedFiles<Value> {
  private readonly clock: Clock;
  private readonly files: readonly string[];
  private readonly read: () => Value;
  private readonly onFailure: (error: unknown) => void;
  private value: Value;
  private versions: string | undefined;
  private checkedAt: Instant;
  private checking: Promise<Value> | undefined;

  /**
   * Reads at once. `onFailure` hears why a later read failed; the last good value stays in use.
   * @throws what `read` throws.
   */
  constructor(options: {
    clock: Clock;
    files: readonly string[];
    read: () => Value;
    onFailure: (error: unknown) => void;
  }) {
    this.clock = options.clock;
    this.files = options.files;
    this.read = options.read;
    this.onFailure = options.onFailure;
    this.value = options.read();
    // The versions read at construction are not known: the first look reads again.
    this.checkedAt = options.clock.now();
  }

  /** The value of the files as they are now, or were at most 5 s ago. */
  current(): MaybePromise<Value> {
    if (this.files.length === 0 || this.clock.now() - this.checkedAt < CHECK_EVERY) return this.value;
    return (this.checking ??= this.check());
  }

  /** The value last read. Begins a look when one is due. */
  latest(): Value {
    void this.current();
    return this.value;
  }

  /** Makes the next {@link current} look at the files: the value was found to be out of date. */
  distrust(): void {
    this.checkedAt = -Infinity;
  }

  private async check(): Promise<Value> {
    try {
      const versions = await this.readVersions();
      if (versions !== this.versions) {
        this.value = this.read();
        this.versions = versions;
      }
    } catch (error) {
      this.onFailure(error);
    }
    this.checkedAt = this.clock.now();
    this.checking = undefined;
    return this.value;
  }

  private async readVersions(): Promise<string> {
    const stats = await Promise.all(this.files.map((file) => stat(file)));
    return stats.map(({ ino, size, mtimeMs }) => `${ino}:${size}:${mtimeMs}`).join(" ");
  }
}
