import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { formatSize } from "../units.ts";

/** The content of a file is no good. */
export class FileFault extends Error {
  /** The rest of a sentence that begins with the file, or with the key that names it. */
  readonly fault: string;

  constructor(file: string, fault: string) {
    super(`${file} ${fault}`);
    this.name = "FileFault";
    this.fault = fault;
  }
}

/** Bytes of a file that is not said to hold more: a secret, a certificate, a configuration. */
const LARGEST_FILE = 16 * 2 ** 20;

/**
 * The text of a regular file, links followed. Type and size are looked at first, of the file that is then read: a pipe
 * would block, a device would take all memory.
 * @param largest bytes
 * @throws Error of Node with its `code` when it cannot be opened or read; {@link FileFault} for what is no regular file, or
 * larger, also when it grows while it is read
 */
export function readTextFile(file: string, largest = LARGEST_FILE): string {
  // Without O_NONBLOCK the very opening of a pipe waits for a writer.
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile()) throw new FileFault(file, "is not a file");
    const tooLarge = (): FileFault => new FileFault(file, `is larger than ${formatSize(largest)}`);
    if (stat.size > largest) throw tooLarge();
    // Files of /proc say 0 and hold more: a byte beyond what is expected shows whether there is.
    const blocks: Buffer[] = [];
    let length = 0;
    for (;;) {
      const block = Buffer.allocUnsafe(Math.max(64 * 1024, stat.size + 1 - length));
      const count = readSync(descriptor, block);
      if (count === 0) return Buffer.concat(blocks).toString("utf8");
      length += count;
      if (length > largest) throw tooLarge();
      blocks.push(block.subarray(0, count));
    }
  } finally {
    closeSync(descriptor);
  }
}

/** What is wrong with a text, as the rest of a sentence that begins with where it is from; undefined when it is good. */
export type FindFault = (text: string) => string | undefined;

/**
 * The text of a file, once it was found to be good.
 * @throws as {@link readTextFile}, and {@link FileFault} for a text with a fault. Messages repeat nothing of it.
 */
export function readGoodFile(file: string, findFault: FindFault): string {
  const text = readTextFile(file);
  const fault = findFault(text);
  if (fault !== undefined) throw new FileFault(file, fault);
  return text;
}

/** Why a file could not be used, without its path. */
export function faultOfFile(error: unknown): string {
  if (error instanceof FileFault) return error.fault;
  const code = error instanceof Error && "code" in error ? String(error.code) : "unknown error";
  return code === "ENOENT" ? "is not there" : `cannot be read (${code})`;
}
