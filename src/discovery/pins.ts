import { type Clock, type Duration, type Instant, settledWithin, sleep } from "../clock.ts";
import type { FileWatcher } from "../config/watched-files.ts";
import type { MergedRows, PurgeReach, Row, SharedRows } from "../sharing/ports.ts";
import { digestOf } from "../digest.ts";
import { parseJson } from "../json.ts";
import { byAge, parsePin, type Pin } from "./pin.ts";
import { PinFile } from "./pin-file.ts";

/** What a process has pinned, whatever of it could be written. */
export interface KnownPins {
  readonly file: string;
  readonly pins: readonly Pin[];
  /** Those of them that are of an earlier file, as this one could not be read yet. */
  readonly lent: readonly Pin[];
}

export interface PinsOptions {
  readonly clock: Clock;
  readonly files: FileWatcher;
  readonly file: string;
  /** What was pinned before by this process. */
  readonly known: KnownPins | undefined;
  /** What replicas share; undefined: this one is alone. */
  readonly shared: SharedRows | undefined;
  /** Other pins are in effect than before. */
  readonly onChange: () => void;
  /** The pins are kept from now on, or cannot be: the rest of a sentence that begins with "it". Called when it changes. */
  readonly onKept: (fault: string | undefined) => void;
  /** There was no file at the start: the pins are those that replicas share, or, with `fromRedis` 0, none. */
  readonly onBegunAnew: (fromRedis: number) => void;
}

/** How long a start waits for what other replicas have pinned. */
const FIRST_LOOK: Duration = 1_000;
const RETRY_EVERY: Duration = 50;

/** Pins beyond this many are not taken: they would be those of admins that nothing lists any more. */
const MAX_PINS = 2_000;

const LOST = "was taken away while the gateway ran, and is written anew with the pins in memory";

/**
 * The pins: in memory, in their file, and with replicas through Redis. Of two pins of one admin the one with more
 * decisions behind it stays. None is ever taken away; one that is not used any more is there without URLs.
 */
export class Pins {
  private readonly options: PinsOptions;
  private readonly file: PinFile;
  private readonly pins = new Map<string, Pin>();
  /** What Redis has of each, as it was read last. */
  private readonly sharedVersions = new Map<string, number>();
  private fault: string | undefined;
  /** How the file was when it was last read or written. */
  private found: "absent" | "read" | "broken" = "absent";
  /** Of an earlier file, until this one can be read. */
  private lent: readonly Pin[] = [];
  /** {@link LOST}, from when that was seen until the file is found there again. */
  private lost: string | undefined;
  /** There was no file at the start, and what replicas share was not read yet. */
  private isUnread = false;
  private saving: Promise<void> = Promise.resolve();
  private isClosed = false;
  private unfollow: (() => void) | undefined;

  constructor(options: PinsOptions) {
    this.options = options;
    this.file = new PinFile(options.file);
  }

  /** Reads what is there. Never rejects; from then on the pins of other replicas arrive. */
  async open(): Promise<void> {
    const { clock, shared, known, file } = this.options;
    if (this.readFile() !== undefined) this.note(undefined);
    // Another file that is there says itself what was found first; until it can be read, what was pinned stays in use.
    const pinned = known?.pins ?? [];
    const lent = known?.file === file ? known.lent : pinned;
    for (const pin of pinned) if (this.found !== "read" || !lent.includes(pin)) this.take(pin);
    if (this.found === "broken") this.lent = lent;
    const isAnew = this.found === "absent";
    if (shared !== undefined) {
      this.isUnread = isAnew;
      shared.follow((rows) => this.merge(rows));
      await settledWithin(this.lookUntil(shared, clock.now() + FIRST_LOOK), FIRST_LOOK, clock);
    }
    if (isAnew && pinned.length === 0) this.options.onBegunAnew(this.pins.size);
    if (this.isClosed) return;
    const take = async (): Promise<boolean> => {
      await this.recheck();
      return true;
    };
    this.unfollow = this.options.files.watch({ files: [this.options.file], take });
  }

  /** What is wrong with the file: the rest of a sentence that begins with "it". */
  get fileFault(): string | undefined {
    return this.fault;
  }

  /**
   * False while the file is there and cannot be read, and where there was none while what replicas share was not read yet:
   * what seems to be new may have been pinned before.
   */
  get isWhole(): boolean {
    return this.found !== "broken" && !this.isUnread;
  }

  get(admin: string): Pin | undefined {
    return this.pins.get(admin);
  }

  /** The oldest first: the same order on all replicas. */
  all(): Pin[] {
    return [...this.pins.values()].toSorted(byAge);
  }

  /** What a search that takes the place of this one begins with. */
  get known(): KnownPins {
    return { file: this.options.file, pins: this.all(), lent: this.lent };
  }

  /** All are in Redis, as it was read last. */
  get areShared(): boolean {
    return [...this.pins.values()].every((pin) => this.isShared(pin));
  }

  /** Keeps decisions, each newer than what was decided before, and has them in effect. Never rejects. */
  async put(pins: readonly Pin[]): Promise<PurgeReach> {
    await this.save(pins);
    for (const pin of pins) this.take(pin);
    this.options.onChange();
    if (this.options.shared === undefined) return "replica";
    await this.options.shared.synchronise().catch(() => undefined);
    return pins.every((pin) => this.isShared(pin)) ? "fleet" : "pending";
  }

  /**
   * Reads the file again: an operator may have mended it or taken it away, and another process have written into it. What
   * it lacks of these pins, because two wrote at once or it could not be written, is written again. Never rejects.
   */
  async recheck(): Promise<void> {
    await this.saving;
    if (this.isClosed) return;
    this.lost = undefined;
    const written = this.readFile();
    if (written === undefined) return;
    const isBehind = [...this.pins.values()].some(({ admin, version }) => version > (written.get(admin) ?? 0));
    if (isBehind) await this.save();
    else this.note(this.lost);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.unfollow?.();
    await this.saving;
  }

  /** Until Redis was read, which may not be connected yet. */
  private async lookUntil(shared: SharedRows, end: Instant): Promise<void> {
    const { clock } = this.options;
    while (!this.isClosed && clock.now() < end) {
      try {
        return await shared.synchronise();
      } catch {
        await sleep(RETRY_EVERY, clock);
      }
    }
  }

  /** Takes what is new in it. Returns the version of each of its pins; undefined: it could not be read. */
  private readFile(): ReadonlyMap<string, number> | undefined {
    try {
      const found = this.file.read();
      const pins = found ?? [];
      // Where there is none, they are written into it.
      if (found !== undefined) this.giveBack(this.lent);
      this.lent = [];
      for (const pin of pins) this.take(pin);
      // A broken one is taken away by an operator.
      if (found === undefined && this.found === "read" && this.pins.size > 0) this.lost = LOST;
      this.found = found === undefined ? "absent" : "read";
      return new Map(pins.map(({ admin, version }) => [admin, version]));
    } catch (error) {
      this.found = "broken";
      this.note((error as Error).message);
      return undefined;
    }
  }

  /** Uses no longer what is of an earlier file, unless replicas share it. */
  private giveBack(lent: readonly Pin[]): void {
    for (const pin of lent) {
      if (this.pins.get(pin.admin) === pin && !this.isShared(pin)) this.pins.delete(pin.admin);
    }
  }

  /** True where it is new. */
  private take(pin: Pin): boolean {
    const known = this.pins.get(pin.admin);
    if (known === undefined && this.pins.size >= MAX_PINS) return false;
    if (known !== undefined && known.version >= pin.version) return false;
    this.pins.set(pin.admin, pin);
    return true;
  }

  /** Writes the pins and `more`, one write after the other; what another process wrote meanwhile is kept. */
  private save(more: readonly Pin[] = []): Promise<void> {
    this.saving = this.saving.then(async () => {
      if (this.readFile() === undefined) return;
      try {
        await this.file.write(this.with(more));
        this.found = "read";
        this.note(this.lost);
      } catch (error) {
        this.note((error as Error).message);
      }
    });
    return this.saving;
  }

  private with(more: readonly Pin[]): Pin[] {
    const pins = new Map(this.pins);
    for (const pin of more) if (pin.version > (pins.get(pin.admin)?.version ?? 0)) pins.set(pin.admin, pin);
    return [...pins.values()].toSorted(byAge);
  }

  private note(fault: string | undefined): void {
    if (fault === this.fault) return;
    this.fault = fault;
    this.options.onKept(fault);
  }

  private isShared({ admin, version }: Pin): boolean {
    return (this.sharedVersions.get(admin) ?? 0) >= version;
  }

  /** Takes over what other replicas decided, and says what they lack. */
  private merge(rows: ReadonlyMap<string, Row>): MergedRows {
    const missing = new Map<string, Row>();
    if (this.isClosed) return { rows: missing };
    this.isUnread = false;
    this.sharedVersions.clear();
    let isNew = false;
    for (const [name, row] of rows) {
      const pin = pinIn(name, row);
      if (pin === undefined) continue;
      this.sharedVersions.set(pin.admin, pin.version);
      const known = this.pins.get(pin.admin);
      // Of two that were decided apart, the one that was shared first stays.
      const isOther = known?.version === pin.version && JSON.stringify(known) !== JSON.stringify(pin);
      if (isOther) this.pins.set(pin.admin, pin);
      if (isOther || this.take(pin)) isNew = true;
    }
    for (const pin of this.pins.values()) if (!this.isShared(pin)) missing.set(digestOf(pin.admin), rowOf(pin));
    if (isNew) {
      this.options.onChange();
      void this.save();
    }
    return { rows: missing };
  }
}

function rowOf(pin: Pin): Row {
  return { version: pin.version, until: undefined, text: JSON.stringify(pin) };
}

/** Undefined for what was not written by this program. */
function pinIn(name: string, { version, text }: Row): Pin | undefined {
  const pin = parsePin(parseJson(text));
  return pin?.version === version && digestOf(pin.admin) === name ? pin : undefined;
}
