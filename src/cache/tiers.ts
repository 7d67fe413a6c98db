import type { Clock } from "../clock.ts";
import type { Sharing } from "../sharing/ports.ts";
import type { Memory } from "./memory.ts";
import { fromShared, toShared } from "./shared.ts";
import type { CacheKey, Entry } from "./types.ts";

/** Memory, and Redis beside it. Gives only entries that count: those of the epoch and the generation of now. */
export class Tiers {
  readonly memory: Memory;
  private readonly clock: Clock;
  private readonly sharing: Pick<Sharing, "entries" | "purges">;

  constructor(memory: Memory, sharing: Pick<Sharing, "entries" | "purges">, clock: Clock) {
    this.memory = memory;
    this.clock = clock;
    this.sharing = sharing;
  }

  epochOf({ party }: CacheKey): number {
    return this.sharing.purges.epochOf(party);
  }

  /** Looks up what memory has, fresh or not. */
  peek(key: CacheKey): Entry | undefined {
    const entry = this.memory.get(key);
    return entry !== undefined && this.isCurrent(entry, key) ? entry : undefined;
  }

  /** Looks up what Redis has, fresh or not; memory takes it over, where it is fresh for longer than what is there. */
  async lookUp(key: CacheKey): Promise<Entry | undefined> {
    const entry = await this.inRedis(key);
    if (entry === undefined || !this.isCurrent(entry, key)) return undefined;
    if (entry.freshUntil > (this.peek(key)?.freshUntil ?? -Infinity)) this.memory.set(key, entry);
    return entry;
  }

  /** Looks up what stands in Redis, of whatever epoch. */
  async inRedis(key: CacheKey): Promise<Entry | undefined> {
    const shared = await this.sharing.entries.get(key);
    return shared && fromShared(shared, this.clock.now());
  }

  /** Stores in both; Redis is written behind. */
  set(key: CacheKey, entry: Entry): void {
    this.memory.set(key, entry);
    const shared = toShared(entry, this.clock.now());
    if (shared === undefined) this.sharing.entries.delete(key);
    else this.sharing.entries.set(key, shared);
  }

  delete(key: CacheKey): void {
    this.memory.delete(key);
    this.sharing.entries.delete(key);
  }

  private isCurrent({ epoch, generation }: Entry, key: CacheKey): boolean {
    return epoch === this.epochOf(key) && generation === key.generation;
  }
}
