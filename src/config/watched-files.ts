import { stat } from "node:fs/promises";
import type { Clock, Duration, Instant } from "../clock.ts";
import { faultOfFile } from "./text-file.ts";

/** What was rotated is picked up within this time. */
const CHECK_EVERY: Duration = 5_000;

interface WatchOptions<Value> {
  readonly clock: Clock;
  readonly files: readonly string[];
  /** Reads and checks them. @throws when what they hold is no good */
  readonly read: () => Value;
  /** An earlier watch: where it was of the same files, what it has stays in use as long as nothing better can be read. */
  readonly previous?: WatchedFiles<Value> | undefined;
  /** Told what every look at the files came to: why they are no good, or undefined. */
  readonly onLook: (fault: string | undefined) => void;
}

/**
 * A value made from files, made again when one of them changed. What is read is checked before it takes the place of the
 * last good value, which stays in use otherwise. Files are looked at when the value is wanted and the last look is older
 * than 5 s; no watcher runs, since container platforms swap mounted secrets behind symbolic links.
 */
export class WatchedFiles<Value> {
  private readonly options: WatchOptions<Value>;
  private value: Value | undefined;
  private versions: string | undefined;
  private checkedAt: Instant;
  private checking: Promise<Value | undefined> | undefined;

  /** Reads at once. */
  constructor(options: WatchOptions<Value>) {
    const { clock, files, previous } = options;
    this.options = options;
    const isSame = previous?.options.files.join("\n") === files.join("\n");
    this.value = isSame ? previous?.value : undefined;
    this.read();
    // The versions read at construction are not known: the first look reads again.
    this.checkedAt = clock.now();
  }

  /** Nothing good could be read yet. */
  get isEmpty(): boolean {
    return this.value === undefined;
  }

  /** The value of the files as they are now, or were at most 5 s ago; undefined where they were never any good. */
  current(): Value | undefined | Promise<Value | undefined> {
    const { files, clock } = this.options;
    if (files.length === 0 || clock.now() - this.checkedAt < CHECK_EVERY) return this.value;
    return (this.checking ??= this.check());
  }

  /** The value last read. Begins a look when one is due. */
  latest(): Value | undefined {
    void this.current();
    return this.value;
  }

  /** Makes the next {@link current} look at the files: the value was found to be out of date. */
  distrust(): void {
    this.checkedAt = -Infinity;
  }

  private async check(): Promise<Value | undefined> {
    const versions = await this.readVersions();
    // What was no good is read again: it may have been read while it was written.
    if (versions === undefined || versions !== this.versions) this.versions = this.read() ? versions : undefined;
    this.checkedAt = this.options.clock.now();
    this.checking = undefined;
    return this.value;
  }

  /** Returns whether what the files hold is in use. */
  private read(): boolean {
    const { files, read, onLook } = this.options;
    try {
      this.value = read();
      if (files.length > 0) onLook(undefined);
      return true;
    } catch (error) {
      onLook(faultOfFile(error));
      return false;
    }
  }

  private async readVersions(): Promise<string | undefined> {
    try {
      const stats = await Promise.all(this.options.files.map((file) => stat(file)));
      return stats.map(({ ino, size, mtimeMs }) => `${ino}:${size}:${mtimeMs}`).join(" ");
    } catch {
      return undefined;
    }
  }
}
