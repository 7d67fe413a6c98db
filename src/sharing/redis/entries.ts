import { crc32 } from "node:zlib";
import { type CacheKey, type Entry, MAX_VARIANTS, type Store } from "../entries.ts";
import { DAY, type Clock, type Duration, type Instant, withReply, type MaybePromise } from "../../clock.ts";
import { digestOf } from "../../digest.ts";
import { decodeEntry, encodeEntry } from "./entry-codec.ts";
import { BASE, softScope } from "../epochs.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisObserver } from "./observer.ts";
import type { RedisCoordinator } from "./coordinator.ts";
import { CLOCK_TOLERANCE, readEntry, VARIANT, writeEntry } from "./entry-scripts.ts";
import { MAX_WAIT, type PartitionView } from "./partitions.ts";
import { isChainDigest } from "./messages.ts";
import { HDEL } from "./scripts.ts";
import type { Rejection } from "./observer.ts";
import { SEAL_LENGTH } from "./seals.ts";

/** Nothing is kept longer, whatever its windows say. */
const MAX_KEPT: Duration = 30 * DAY;

/** Bytes that an entry has besides its body: fields, key and dependencies. */
const OVERHEAD = 512 * 1024;

/** Bytes of all variants of one resource that are read at once, where one of them is not longer. */
const LARGEST_TOGETHER = 16 * 1024 * 1024;

/**
 * A variant begins with a check of all that follows, a CRC-32 or a seal; then comes the instant at which it was sent, in
 * digits (Redis's clock as the writer knows it, ms).
 */
const CHECKSUM_LENGTH = 4;
const STAMP_LENGTH = 13;

export interface RedisStoreOptions {
  connection: RedisConnection;
  /** The coordinator over the same connection: its epochs decide what may be read. */
  coordinator: Pick<RedisCoordinator, "epochs" | "chains">;
  clock: Clock;
  observer: RedisObserver;
  /** Bytes of the largest body that is stored, now. */
  largestBody: () => number;
}

/** What {@link readEntry} returns. */
type Reply = readonly [time: number, chain: Buffer | null, epochs: readonly (Buffer | null)[], hash: readonly Buffer[]];

/**
 * The tier of the cache that replicas share. A lookup is one round trip that brings entry and epochs; with Redis away
 * it is a miss without any. Ages need no agreed clocks: Redis says how long an entry has been there.
 */
export class RedisStore implements Store {
  private readonly connection: RedisConnection;
  private readonly coordinator: RedisStoreOptions["coordinator"];
  private readonly clock: Clock;
  private readonly observer: RedisObserver;
  private readonly largestBody: () => number;
  /** Of keys that are kept elsewhere, because they are asked for again. */
  private readonly entryKeys = new WeakMap<CacheKey, string>();

  constructor({ connection, coordinator, clock, observer, largestBody }: RedisStoreOptions) {
    this.largestBody = largestBody;
    this.connection = connection;
    this.coordinator = coordinator;
    this.clock = clock;
    this.observer = observer;
  }

  get(key: CacheKey): MaybePromise<readonly Entry[] | undefined> {
    const unsettled = this.coordinator.epochs.unsettled(key.partition);
    if (unsettled !== undefined) return unsettled.then(() => this.find(key));
    return this.find(key);
  }

  private find(key: CacheKey): MaybePromise<readonly Entry[] | undefined> {
    const view = this.coordinator.epochs.readable(key.partition);
    return view === undefined ? undefined : this.read(key, view);
  }

  set(key: CacheKey, entry: Entry): void {
    const view = this.coordinator.epochs.readable(key.partition);
    if (view?.isKnown !== true || this.coordinator.epochs.epochOf(key) !== entry.epoch) return;
    const { base, scopes } = this.coordinator.epochs.read(key.partition);
    const dependencies = [base, ...key.scopes.flatMap((scope) => [scope, scopes.get(scope) ?? ""])];
    this.connection.write(() => {
      const now = this.clock.now();
      const useful = Math.max(entry.freshUntil, entry.revalidateUntil, entry.usableUntil) - now;
      const name = this.entryKey(view, key);
      const field = fieldOf(entry);
      const sentAt = now + view.clockOffset;
      return {
        script: writeEntry,
        keys: [name, this.connection.keys.epochs(view.tag)],
        args: [
          field,
          this.encode({ name, field, sentAt }, encodeEntry(key, entry, now, this.checkLength + STAMP_LENGTH)),
          Math.min(useful, MAX_KEPT),
          sentAt,
          entry.epoch,
          MAX_VARIANTS,
          ...dependencies,
        ],
      };
    }, entry.body.length);
  }

  delete(key: CacheKey, entry: Entry): void {
    const view = this.coordinator.epochs.readable(key.partition);
    if (view === undefined) return;
    const keys = [this.entryKey(view, key)];
    this.connection.write(() => ({ script: HDEL, keys, args: [fieldOf(entry)] }), 0);
  }

  private async read(key: CacheKey, view: PartitionView): Promise<readonly Entry[] | undefined> {
    const { epochs, chains } = this.coordinator;
    const { session } = view.breaker;
    // Sent ahead of the lookup, so that both arrive together.
    const learned = view.isKnown ? undefined : epochs.learn(view);
    const { keys } = this.connection;
    const names = [this.entryKey(view, key), keys.epochs(view.tag)];
    if (key.chain !== undefined) names.push(keys.chain(view.tag, key.chain));
    const known = key.chain === undefined ? undefined : epochs.chainDigest(key.partition, key.chain);
    const sentAt = this.clock.now();
    try {
      const scopes = [...key.scopes, ...key.scopes.map(softScope)];
      const largest = this.largestBody() + OVERHEAD;
      const bounds = [largest, Math.max(largest, LARGEST_TOGETHER)];
      const call = { script: readEntry, keys: names, args: [...bounds, BASE, ...scopes], binary: true };
      const [time, chain, found, hash] = (await this.connection.run(call, MAX_WAIT)) as Reply;
      if (learned !== undefined) await withReply(learned, MAX_WAIT, this.clock);
      if (!view.isKnown || !epochs.observe(view, scopes, found.map(textOf))) return undefined;
      if (key.chain !== undefined)
        chains.observe(view, key.chain, { sent: known, found: this.readChain(names[2]!, chain) });
      // Counted from when it was asked: a slow reply makes an entry older, never younger.
      return this.decode({ key, name: names[0]! }, hash, sentAt - time);
    } catch {
      epochs.fail(view.breaker, session);
      return undefined;
    }
  }

  private readChain(key: string, bytes: Buffer | null): string | undefined {
    if (bytes === null) return undefined;
    const digest = this.connection.seals.open({ kind: "chain", key }, bytes.toString())?.text;
    if (digest !== undefined && isChainDigest(digest)) return digest;
    this.observer.valueRejected("chain", digest === undefined ? "seal" : "form");
    return undefined;
  }

  private get checkLength(): number {
    return this.connection.seals.areOn ? SEAL_LENGTH : CHECKSUM_LENGTH;
  }

  /** Completes what there is room for before an entry's bytes. */
  private encode({ name, field, sentAt }: { name: string; field: string; sentAt: number }, bytes: Buffer): Buffer {
    const { seals } = this.connection;
    bytes.write(String(Math.max(0, Math.floor(sentAt))).padStart(STAMP_LENGTH, "0"), this.checkLength, "latin1");
    if (seals.areOn) seals.sealBytes({ kind: "entry", key: name, field }, bytes);
    else bytes.writeUInt32BE(crc32(bytes.subarray(CHECKSUM_LENGTH)), 0);
    return bytes;
  }

  /** Why a stored variant is not what was stored under this field; undefined when it is. */
  private findFault(name: string, field: string, value: Buffer): Rejection | undefined {
    const { seals } = this.connection;
    if (seals.areOn) return seals.areSealed({ kind: "entry", key: name, field }, value) ? undefined : "seal";
    if (value.length < CHECKSUM_LENGTH) return "form";
    return value.readUInt32BE(0) === crc32(value.subarray(CHECKSUM_LENGTH)) ? undefined : "form";
  }

  private entryKey(view: PartitionView, key: CacheKey): string {
    let name = this.entryKeys.get(key);
    if (name === undefined) {
      name = this.connection.keys.entry(view.tag, key.id);
      this.entryKeys.set(key, name);
    }
    return name;
  }

  /** `offset`: what to add to an instant of Redis's clock. */
  private decode(
    { key, name }: { key: CacheKey; name: string },
    hash: readonly Buffer[],
    offset: number,
  ): readonly Entry[] | undefined {
    const entries: Entry[] = [];
    const latest: Instant = this.clock.now() + CLOCK_TOLERANCE;
    const start = this.checkLength;
    for (let i = 0; i + 1 < hash.length; i += 2) {
      const field = hash[i]!.toString("latin1");
      if (!field.startsWith(VARIANT)) continue;
      const value = hash[i + 1]!;
      const fault = this.findFault(name, field, value);
      const writtenAt = readStamp(value, start) + offset;
      const isRead = fault === undefined && writtenAt <= latest;
      const entry = isRead ? decodeEntry(value.subarray(start + STAMP_LENGTH), key, writtenAt) : undefined;
      if (entry === undefined) this.observer.valueRejected("entry", fault ?? "form");
      else entries.push(entry);
    }
    return entries.length === 0 ? undefined : entries;
  }
}

/** When a variant was written, by Redis's clock. */
function readStamp(value: Buffer, start: number): Instant {
  return Number(value.toString("latin1", start, start + STAMP_LENGTH));
}

function fieldOf(entry: Pick<Entry, "vary" | "variant">): string {
  return entry.vary.length === 0 ? VARIANT : `${VARIANT}:${digestOf(`${entry.vary.join()}\n${entry.variant}`)}`;
}

function textOf(bytes: Buffer | null): string | undefined {
  return bytes?.toString();
}
