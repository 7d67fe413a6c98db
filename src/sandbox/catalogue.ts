import type { Clock } from "../clock.ts";
import { randomSupply, type Instrument } from "./instrument.ts";
import { randomInteger, type Random } from "./random.ts";

/** How many ids of removed instruments stay good as page tokens. */
const MAX_RETIRED = 10_000;

function byId(a: Instrument, b: Instrument): number {
  return a.id < b.id ? -1 : 1;
}

/** The instruments of one sample registry, changeable while it serves. */
export class Catalogue {
  private readonly clock: Clock;
  private readonly random: Random;
  private readonly instruments = new Map<string, Instrument>();
  private readonly retired = new Set<string>();
  private sorted: readonly Instrument[] | undefined;

  constructor(instruments: readonly Instrument[], options: { clock: Clock; random: Random }) {
    this.clock = options.clock;
    this.random = options.random;
    this.add(...instruments);
  }

  get size(): number {
    return this.instruments.size;
  }

  get(id: string): Instrument | undefined {
    return this.instruments.get(id);
  }

  /** All instruments in the order of their ids (by code unit). */
  list(): readonly Instrument[] {
    this.sorted ??= [...this.instruments.values()].sort(byId);
    return this.sorted;
  }

  /** Whether `id` is or was an instrument here: a keyset token stays good after its instrument has gone. */
  hasKnown(id: string): boolean {
    return this.instruments.has(id) || this.retired.has(id);
  }

  /** Adds instruments, or replaces those with the same id. */
  add(...instruments: readonly Instrument[]): void {
    for (const instrument of instruments) this.instruments.set(instrument.id, instrument);
    this.sorted = undefined;
  }

  /** Removes the instrument; false when there was none. */
  remove(id: string): boolean {
    if (!this.instruments.delete(id)) return false;
    this.sorted = undefined;
    this.retired.add(id);
    if (this.retired.size > MAX_RETIRED) this.retired.delete(this.retired.values().next().value!);
    return true;
  }

  /** Changes fields of one instrument, its id excepted; throws when there is no such instrument. */
  update(id: string, patch: Partial<Instrument>): void {
    const before = this.instruments.get(id);
    if (before === undefined) throw new Error(`the sample registry has no instrument ${JSON.stringify(id)}`);
    this.add({ ...before, ...patch, id });
  }

  /** Moves the supply of `count` instruments drawn at random, as minting and burning do, each with its new as-of. */
  churn(count: number): void {
    const instruments = this.list();
    if (instruments.length === 0) return;
    const asOf = new Date(this.clock.wallNow()).toISOString().replace("Z", "000");
    for (let i = 0; i < count; i++) {
      const { id, totalSupplyAsOf } = instruments[randomInteger(this.random, instruments.length)]!;
      const zone = totalSupplyAsOf?.endsWith("Z") === true ? "Z" : "";
      this.update(id, { totalSupply: randomSupply(this.random), totalSupplyAsOf: asOf + zone });
    }
  }
}
