import type { Entry } from "../cache/entry.ts";
import { decodeEntry, encodeEntry } from "../coordination/entry-codec.ts";
import type { CacheKey, Store } from "../cache/stores/store.ts";
import type { Clock, Duration } from "../clock.ts";
import type { Peer } from "./peer.ts";
import type { PrimaryTopics, WorkerTopics } from "./worker-topics.ts";

/** The primary is on this machine; one that takes longer is of no use to a request. */
const REPLY_TIMEOUT: Duration = 250;

/** A write is known to have arrived, or given up. */
const WRITE_TIMEOUT: Duration = 2_000;

/** On its way to a primary that does not keep up. Beyond it entries stay in this worker. */
const MAX_UNDER_WAY = 16 * 1024 * 1024;

/** The tier of the cache that the workers of a machine share: the shelf of their primary. */
export class ShelfStore implements Store {
  private readonly primary: Peer<WorkerTopics, PrimaryTopics>;
  private readonly clock: Clock;
  private underWay = 0;

  constructor(primary: Peer<WorkerTopics, PrimaryTopics>, clock: Clock) {
    this.primary = primary;
    this.clock = clock;
  }

  async get(key: CacheKey): Promise<readonly Entry[] | undefined> {
    const askedAt = this.clock.now();
    try {
      const shelved = await this.primary.ask("shelf", key.name, REPLY_TIMEOUT);
      // Counted from when it was asked: a slow reply makes an entry older, never younger.
      const entries = shelved.map(({ bytes, age }) => decodeEntry(bytes, key, askedAt - age));
      return entries.filter((entry) => entry !== undefined);
    } catch {
      return undefined;
    }
  }

  set(key: CacheKey, entry: Entry): void {
    const bytes = encodeEntry(key, entry, this.clock.now());
    if (this.underWay + bytes.length > MAX_UNDER_WAY) return;
    this.underWay += bytes.length;
    const variant = `${entry.vary.join()}\n${entry.variant}`;
    const write = { key: key.name, variant, epoch: entry.epoch, bytes, sentAt: this.clock.wallNow() };
    const arrived = (): void => {
      this.underWay -= bytes.length;
    };
    this.primary.ask("shelve", write, WRITE_TIMEOUT).then(arrived, arrived);
  }

  delete(key: CacheKey): void {
    this.primary.tell("unshelve", key.name);
  }
}
