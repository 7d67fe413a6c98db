import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats, unwatchFile, watchFile } from "node:fs";
import { type CancelTimer, type Duration, systemClock } from "../clock.ts";
import { formatSize, type Size } from "../units.ts";

/**
 * The text of a regular file, links followed.
 *
 * @throws {Error} whose message ends a sentence that begins with the file's name
 */
export function readTextFile(file: string, largest: Size): string {
  let descriptor: number | undefined;
  try {
    // Without O_NONBLOCK the very opening of a pipe waits for a writer.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const stat = fstatSync(descriptor);
    if (stat.isFile() && stat.size <= largest) return readFileSync(descriptor, "utf8");
    throw new Error(stat.isFile() ? `is larger than ${formatSize(largest)}` : "is not a file");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const fault = code === "ENOENT" ? "is not there" : code === undefined ? message : `cannot be read (${code})`;
    throw new Error(fault, { cause: error });
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/** Files that belong together, a certificate and its key, are written one after the other. */
const SETTLE: Duration = 200;

/**
 * Calls `onChange` after one or more of the files changed: written in place, renamed, behind a link that now leads elsewhere
 * (Kubernetes' `..data`), appeared or gone. Watch the files of a new configuration before the watch of the last one ends: what
 * changes meanwhile is then seen, too. Does not keep the process alive.
 *
 * @returns what ends the watch
 */
export function watchFiles(files: readonly string[], onChange: () => void, every: Duration = 1_000): () => void {
  let cancel: CancelTimer | undefined;
  const changed = (now: Stats, before: Stats): void => {
    const isAbsentStill = now.ino === 0 && before.ino === 0;
    if (isAbsentStill || cancel !== undefined) return;
    cancel = systemClock().after(SETTLE, () => {
      cancel = undefined;
      onChange();
    });
  };
  for (const file of files) watchFile(file, { persistent: false, interval: every }, changed);
  return () => {
    cancel?.();
    for (const file of files) unwatchFile(file, changed);
  };
}
