import { type Epoch, isEpoch } from "../epochs.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import type { PartitionView } from "./partition-views.ts";
import { clearForeign, defineScript, NOW } from "./protocol.ts";
import type { SealedPlace } from "./seals.ts";

/** Scopes in one hash; what has more is foreign. */
const MOST_SCOPES = 1_024;

/** Characters of a text that is kept to be compared; an epoch with its seal has fewer. */
const LONGEST_KEPT = 128;

/** Partitions that are read with one script: nothing else runs in Redis meanwhile. */
const MOST_AT_ONCE = 32;

/** KEYS: epochs of one partition each. Returns Redis's time (ms), then the hash of each. */
const readEpochs = defineScript(
  "epochs_read",
  "no-writes",
  `${NOW}
local found = { now }
for i, key in ipairs(KEYS) do
  local count = redis.pcall('HLEN', key)
  local isOurs = type(count) == 'number' and count <= ${MOST_SCOPES}
  found[i + 1] = isOurs and redis.call('HGETALL', key) or {}
end
return found`,
);

/**
 * Writes epochs where Redis has what this process saw there, and tells the others. KEYS: epochs. ARGV: channel, whether
 * all others go ("1"), how many messages there are, the messages, then scope, text seen ('' for none) and new text in
 * turns. Returns Redis's time (ms), whether it was written (1), and else the hash.
 */
const writeEpochs = defineScript(
  "epochs_write",
  "allow-oom",
  `${NOW} ${clearForeign("hash")}
if redis.call('HLEN', KEYS[1]) > ${MOST_SCOPES} then redis.call('DEL', KEYS[1]) end
local first = 4 + tonumber(ARGV[3])
for i = first, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then return { now, 0, redis.call('HGETALL', KEYS[1]) } end
end
if ARGV[2] == '1' then redis.call('DEL', KEYS[1]) end
for i = first, #ARGV, 3 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2]) end
for i = 4, first - 1 do redis.call('PUBLISH', ARGV[1], ARGV[i]) end
return { now, 1 }`,
);

/** What Redis has of one partition. */
export interface FoundEpochs {
  readonly time: number;
  /** As they are there, by scope. */
  readonly texts: ReadonlyMap<string, string>;
  /** Those of them that are epochs of ours. */
  readonly epochs: ReadonlyMap<string, Epoch>;
  /** Some are sealed with a key on its way out. */
  readonly isOutdated: boolean;
}

/** What is to be written. */
export interface EpochChanges {
  /** All others go. */
  readonly isAnew: boolean;
  readonly epochs: ReadonlyMap<string, Epoch>;
}

/** The epochs of partitions as Redis has them: read with their seals looked at, and written where nothing changed. */
export class StoredEpochs {
  private readonly connection: RedisConnection;
  private readonly observer: Pick<RedisObserver, "valueRejected">;

  constructor(connection: RedisConnection, observer: Pick<RedisObserver, "valueRejected">) {
    this.connection = connection;
    this.observer = observer;
  }

  find(view: PartitionView): Promise<FoundEpochs> {
    return this.findAll([view])[0]!;
  }

  /** Of several partitions, in their order: many with one script, but in a cluster, where they lie on different shards. */
  findAll(views: readonly PartitionView[]): readonly Promise<FoundEpochs>[] {
    const { keys, isCluster } = this.connection;
    const found: Promise<FoundEpochs>[] = [];
    while (found.length < views.length) {
      const some = views.slice(found.length, found.length + (isCluster ? 1 : MOST_AT_ONCE));
      const call = { script: readEpochs, keys: some.map(({ tag }) => keys.epochs(tag)), args: [] };
      const reply = this.connection.run(call) as Promise<readonly [number, ...string[][]]>;
      for (const [at, view] of some.entries())
        found.push(reply.then(([time, ...flat]) => this.parse(view, time, pairsOf(flat[at]!))));
    }
    return found;
  }

  /** Undefined when it was written; else what Redis has now. */
  async write(
    view: PartitionView,
    { texts }: FoundEpochs,
    { isAnew, epochs }: EpochChanges,
    told: readonly string[],
  ): Promise<FoundEpochs | undefined> {
    const { keys } = this.connection;
    const triples = [...epochs].flatMap(([scope, epoch]) => [
      scope,
      texts.get(scope) ?? "",
      this.seal(view, scope, epoch),
    ]);
    const args = [keys.channel, isAnew ? "1" : "0", told.length, ...told, ...triples];
    const reply = await this.connection.run({ script: writeEpochs, keys: [keys.epochs(view.tag)], args });
    const [time, isWritten, flat] = reply as [number, number, string[]];
    return isWritten === 1 ? undefined : this.parse(view, time, pairsOf(flat));
  }

  parse(view: PartitionView, time: number, texts: ReadonlyMap<string, string>): FoundEpochs {
    const epochs = new Map<string, Epoch>();
    let isOutdated = false;
    for (const [scope, text] of texts) {
      const epoch = this.open(view, scope, text);
      if (epoch === undefined) continue;
      epochs.set(scope, epoch);
      isOutdated ||= view.opened.get(scope)?.isOutdated === true;
    }
    return { time, texts, epochs, isOutdated };
  }

  /** The epoch in a text of Redis; undefined where it is none of ours. */
  open(view: PartitionView, scope: string, text: string): Epoch | undefined {
    const { seals } = this.connection;
    const { version } = seals;
    const known = view.opened.get(scope);
    if (known?.text === text && known.version === version) return known.epoch;
    const opened = seals.open(this.placeOf(view, scope), text);
    const epoch = opened !== undefined && isEpoch(opened.text) ? opened.text : undefined;
    if (epoch === undefined) this.observer.valueRejected("epoch", opened === undefined ? "seal" : "form");
    // Scopes that Redis has not are not kept either; a text that is read again is most often the same.
    if (view.opened.size > MOST_SCOPES) view.opened.clear();
    if (text.length <= LONGEST_KEPT)
      view.opened.set(scope, { text, version, epoch, isOutdated: opened?.isOutdated === true });
    return epoch;
  }

  seal(view: PartitionView, scope: string, epoch: Epoch): string {
    return this.connection.seals.seal(this.placeOf(view, scope), epoch);
  }

  private placeOf(view: PartitionView, scope: string): SealedPlace {
    return { kind: "epoch", key: this.connection.keys.epochs(view.tag), field: scope };
  }
}

function pairsOf(flat: readonly string[]): Map<string, string> {
  const pairs = new Map<string, string>();
  for (let i = 0; i + 1 < flat.length; i += 2) pairs.set(flat[i]!, flat[i + 1]!);
  return pairs;
}
