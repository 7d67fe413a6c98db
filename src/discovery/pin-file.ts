import { randomUUID } from "node:crypto";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { faultOfFile, readTextFile } from "../config/text-file.ts";
import { isObject, parseJson } from "../json.ts";
import { parsePin, type Pin } from "./pin.ts";

/** Written into the file: a release that reads pins differently refuses those of another. */
const FORMAT = 1;

/** More bytes than the most pins have. */
const MAX_FILE = 64 * 1024 * 1024;

/**
 * The file with the pins. It is never written in place: a crash leaves the earlier one. What is in it and cannot be
 * read is never written over.
 */
export class PinFile {
  private readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /**
   * The pins in it; undefined where there is no file.
   *
   * @throws Error when it is there and cannot be read, or is broken; the message is the rest of a sentence that begins
   * with "it"
   */
  read(): Pin[] | undefined {
    let text: string;
    try {
      text = readTextFile(this.path, MAX_FILE);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return undefined;
      throw new Error(faultOfFile(error), { cause: error });
    }
    return parse(text);
  }

  /**
   * Has these pins in the place of the file, readable by this user alone, and on the disk.
   *
   * @throws Error when it cannot be written; the message is the rest of a sentence that begins with "it"
   */
  async write(pins: readonly Pin[]): Promise<void> {
    const folder = dirname(this.path);
    const draft = `${this.path}.${randomUUID()}.tmp`;
    try {
      await mkdir(folder, { recursive: true });
      const file = await open(draft, "wx", 0o600);
      try {
        await file.writeFile(`${JSON.stringify({ format: FORMAT, pins }, undefined, 2)}\n`);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(draft, this.path);
      await syncFolder(folder);
    } catch (error) {
      await rm(draft, { force: true }).catch(() => undefined);
      throw new Error(`cannot be written (${(error as NodeJS.ErrnoException).code})`, { cause: error });
    }
  }
}

/** A rename is on the disk when its folder is. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function parse(text: string): Pin[] {
  const json = parseJson(text);
  if (json === undefined) throw new Error("is broken: it is no JSON");
  if (!isObject(json) || json.format !== FORMAT || !Array.isArray(json.pins)) {
    throw new Error("is broken, or of another version of this program");
  }
  return json.pins.map((value: unknown, index) => {
    const pin = parsePin(value);
    if (pin === undefined) throw new Error(`is broken: its entry ${index} is no pin`);
    return pin;
  });
}
