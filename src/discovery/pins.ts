import { type CancelTimer, type Clock, type Duration, type Instant, settledWithin, sleep } from "../clock.ts";
import type { Row, SharedRows } from "../coordination/coordination.ts";
import { digestOf } from "../digest.ts";
import { byAge, parsePin, type Pin } from "./pin.ts";
import { PinFile } from "./pin-file.ts";

/** How far a decision got: this replica alone, all of them, or this one until Redis is back. */
export type PinReach = "replica" | "fleet" | "pending";

export interface PinsOptions {
  readonly clock: Clock;
  readonly file: string;
  /** What replicas share; undefined: this one is alone. */
  readonly shared: SharedRows | undefined;
  /** Other pins are in effect than before. */
  readonly onChange: () => void;
  /** The pins are kept from now on, or cannot be: the rest of a sentence that begins with "it". Told when it changes. */
  readonly onKept: (fault: string | undefined) => void;
}

/** A decision has effect on all replicas within 2 s. */
const LOOK_EVERY: Duration = 500;

/** How long a start waits for what other replicas have pinned. */
const FIRST_LOOK: Duration = 1_000;
const RETRY_EVERY: Duration = 50;

/** Pins beyond this many are not taken: they would be those of admins that nothing lists any more. */
const MAX_PINS = 2_000;

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
  private isBroken = false;
  private saving: Promise<void> = Promise.resolve();
  private looking: Promise<void> | undefined;
  private cancelTimer: CancelTimer = () => undefined;
  private isClosed = false;

  constructor(options: PinsOptions) {
    this.options = options;
    this.file = new PinFile(options.file);
  }

  /** Reads what is there. Never rejects; from then on pins of other replicas are heard of. */
  async open(): Promise<void> {
    const { clock, shared } = this.options;
    if (this.readFile() !== undefined) this.note(undefined);
    if (shared === undefined) return;
    await settledWithin(this.lookUntil(clock.now() + FIRST_LOOK), FIRST_LOOK, clock);
    this.schedule();
  }

  /** What is wrong with the file: the rest of a sentence that begins with "it". */
  get fileFault(): string | undefined {
    return this.fault;
  }

  /** False while the file is there and cannot be read: what seems to be new may have been pinned elsewhere before. */
  get isWhole(): boolean {
    return !this.isBroken;
  }

  get(admin: string): Pin | undefined {
    return this.pins.get(admin);
  }

  /** The oldest first: the same order on all replicas. */
  all(): Pin[] {
    return [...this.pins.values()].toSorted(byAge);
  }

  /** Keeps decisions, each newer than what was decided before, and has them in effect. Never rejects. */
  async put(pins: readonly Pin[]): Promise<PinReach> {
    await this.save(pins);
    for (const pin of pins) this.take(pin);
    this.options.onChange();
    if (this.options.shared === undefined) return "replica";
    await this.exchange().catch(() => undefined);
    return pins.every(({ admin, version }) => (this.sharedVersions.get(admin) ?? 0) >= version) ? "fleet" : "pending";
  }

  /**
   * Reads the file again: an operator may have mended it or taken it away, and another process have written into it. What
   * it lacks of these pins, be it that two wrote at once or that it could not be written, is written again. Never rejects.
   */
  async recheck(): Promise<void> {
    await this.saving;
    const written = this.isClosed ? undefined : this.readFile();
    if (written === undefined) return;
    const isBehind = [...this.pins.values()].some(({ admin, version }) => version > (written.get(admin) ?? 0));
    if (isBehind) await this.save();
    else this.note(undefined);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.cancelTimer();
    await this.saving;
  }

  /** Until Redis was read, which may not be connected yet. */
  private async lookUntil(end: Instant): Promise<void> {
    const { clock } = this.options;
    while (!this.isClosed && clock.now() < end) {
      try {
        return await this.exchange();
      } catch {
        await sleep(RETRY_EVERY, clock);
      }
    }
  }

  /** Takes what is news in it. Returns the version of each of its pins; undefined: it could not be read. */
  private readFile(): ReadonlyMap<string, number> | undefined {
    try {
      const pins = this.file.read();
      for (const pin of pins) this.take(pin);
      this.isBroken = false;
      return new Map(pins.map(({ admin, version }) => [admin, version]));
    } catch (error) {
      this.isBroken = true;
      this.note((error as Error).message);
      return undefined;
    }
  }

  /** True where it is news. */
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
        this.note(undefined);
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

  private schedule(): void {
    if (this.isClosed) return;
    this.cancelTimer = this.options.clock.after(LOOK_EVERY, () => {
      void this.exchange()
        .catch(() => undefined)
        .finally(() => this.schedule());
    });
  }

  /** One after the other; who comes while one runs has another one behind it. */
  private exchange(): Promise<void> {
    const before = this.looking ?? Promise.resolve();
    const next: Promise<void> = before
      .catch(() => undefined)
      .then(() => this.exchangeNow())
      .finally(() => {
        if (this.looking === next) this.looking = undefined;
      });
    this.looking = next;
    return next;
  }

  private async exchangeNow(): Promise<void> {
    const unshared = [...this.pins.values()].filter(
      ({ admin, version }) => version > (this.sharedVersions.get(admin) ?? 0),
    );
    const rows = await this.options.shared!.exchange(unshared.map(rowOf));
    if (rows === undefined) return;
    this.sharedVersions.clear();
    let isNews = false;
    for (const row of rows) {
      const pin = pinIn(row);
      if (pin === undefined) continue;
      this.sharedVersions.set(pin.admin, pin.version);
      const known = this.pins.get(pin.admin);
      // Of two that were decided apart, the one that was shared first stays.
      const isOther = known?.version === pin.version && JSON.stringify(known) !== JSON.stringify(pin);
      if (isOther) this.pins.set(pin.admin, pin);
      if (isOther || this.take(pin)) isNews = true;
    }
    if (!isNews) return;
    this.options.onChange();
    await this.save();
  }
}

function rowOf(pin: Pin): Row {
  return { key: digestOf(pin.admin), version: pin.version, text: JSON.stringify(pin) };
}

/** Undefined for what was not written by this program. */
function pinIn({ key, version, text }: Row): Pin | undefined {
  try {
    const pin = parsePin(JSON.parse(text));
    return pin?.version === version && digestOf(pin.admin) === key ? pin : undefined;
  } catch {
    return undefined;
  }
}
