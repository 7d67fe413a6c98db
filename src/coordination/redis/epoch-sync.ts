import { randomBytes } from "node:crypto";
import { type Clock, type Duration, TimedOut, withReply } from "../../clock.ts";
import { BASE, type Epoch, epochCount, type Epochs, type EpochSet, MAX_COUNT } from "../epochs.ts";
import type { RedisConnection } from "./connection.ts";
import type { PartitionView } from "./partition-views.ts";
import { clearForeign, defineScript, NOW, type Script } from "./protocol.ts";

/** How the scripts read an epoch, see `epochCount`: what is none is older than all. */
const COUNT = `
local function count(epoch)
  local number = tonumber(string.match(epoch, '^%d+')) or -1
  return number <= ${MAX_COUNT} and number or -1
end`;

/** KEYS: epochs. Returns Redis's time (ms) and the hash. */
const readEpochs = defineScript(
  "epochs_read",
  "no-writes",
  `${NOW}
local epochs = redis.pcall('HGETALL', KEYS[1])
return { now, epochs.err and {} or epochs }`,
);

/**
 * Brings the epochs of this process and those in Redis together, when Redis has lost some. KEYS: epochs. ARGV: whether
 * this process has had its epochs from Redis before ("1"), a random part for a new epoch, channel, tag, base, then scope
 * and epoch in turns. Returns Redis's time (ms) and the hash.
 *
 * Nothing in Redis: this process's epochs are written back, all in one go: a base without its scopes would let entries
 * through that a scope's purge had ended. An older or foreign epoch in Redis: neither is right for certain (a failover
 * lost a purge, or two groups of replicas went on alone), so the scope gets one that is newer than both. Either way the
 * others are asked to look: they may know of purges that Redis and this process do not.
 */
const mergeEpochs = defineScript(
  "epochs_merge",
  "allow-oom",
  `${COUNT} ${NOW} ${clearForeign("hash")}
local function newer(epoch) return string.format('%d.%s', count(epoch) + 1, ARGV[2]) end
local isChanged = false
local function set(...)
  redis.call('HSET', KEYS[1], ...)
  isChanged = true
end
local base = redis.call('HGET', KEYS[1], '${BASE}')
if not base then
  set('${BASE}', unpack(ARGV, 5))
elseif ARGV[1] == '1' and base ~= ARGV[5] and count(base) <= count(ARGV[5]) then
  redis.call('DEL', KEYS[1])
  set('${BASE}', newer(ARGV[5]))
elseif ARGV[1] == '1' and base == ARGV[5] then
  for i = 6, #ARGV, 2 do
    local epoch = redis.call('HGET', KEYS[1], ARGV[i])
    if not epoch then
      set(ARGV[i], ARGV[i + 1])
    elseif epoch ~= ARGV[i + 1] and count(epoch) <= count(ARGV[i + 1]) then
      set(ARGV[i], newer(ARGV[i + 1]))
    end
  end
end
if isChanged then redis.call('PUBLISH', ARGV[3], cjson.encode({ 'look', ARGV[4] })) end
return { now, redis.call('HGETALL', KEYS[1]) }`,
);

/**
 * Writes purges and tells the other replicas. KEYS: epochs. ARGV: channel, tag, a random part for a new epoch, then
 * scope and the epoch this process gave it in turns. Returns the epochs the scopes have now, or nil when Redis has no
 * epochs at all: those of this process come first (mergeEpochs).
 */
const raiseEpochs = defineScript(
  "epochs_raise",
  "allow-oom",
  `${COUNT} ${NOW} ${clearForeign("hash")}
if redis.call('HEXISTS', KEYS[1], '${BASE}') == 0 then return false end
local raised = {}
for i = 4, #ARGV, 2 do
  local scope, epoch = ARGV[i], ARGV[i + 1]
  local last = redis.call('HGET', KEYS[1], scope)
  if last and last ~= epoch and count(last) >= count(epoch) then
    epoch = string.format('%d.%s', count(last) + 1, ARGV[3])
  end
  if last ~= epoch then
    if scope == '${BASE}' then redis.call('DEL', KEYS[1]) end
    redis.call('HSET', KEYS[1], scope, epoch)
  end
  raised[#raised + 1] = epoch
  redis.call('PUBLISH', ARGV[1], cjson.encode({ 'epoch', ARGV[2], scope, epoch, now }))
end
return raised`,
);

/** How an epoch from elsewhere compares with the one known here. */
export type Comparison =
  /** It was newer, and counts from now on. */
  | "newer"
  | "known"
  /** It is older, or of the same age: Redis has to say what holds. */
  | "doubtful";

/** Brings the epochs of this process and those in Redis together. Nothing known here ever gives way to something older. */
export class EpochSync {
  private readonly connection: RedisConnection;
  private readonly epochs: Epochs;
  private readonly clock: Clock;

  constructor(connection: RedisConnection, epochs: Epochs, clock: Clock) {
    this.connection = connection;
    this.epochs = epochs;
    this.clock = clock;
  }

  /** Takes over one epoch of a scope, or of the base, if it is newer. */
  take(view: PartitionView, scope: string, epoch: Epoch): Comparison {
    const local = this.epochs.read(view.partition);
    const ours = scope === BASE ? local.base : local.scopes.get(scope);
    if (ours === epoch) return "known";
    if (!isNewer(epoch, ours)) return "doubtful";
    if (scope === BASE) this.epochs.replace(view.partition, { base: epoch, scopes: new Map() });
    else this.epochs.put(view.partition, scope, epoch);
    return "newer";
  }

  /**
   * Takes over epochs that came with an entry: the base, then one of each scope (undefined: none). False when they do
   * not agree with those here.
   */
  observe(view: PartitionView, scopes: readonly string[], found: readonly (Epoch | undefined)[]): boolean {
    const local = this.epochs.read(view.partition);
    if (found[0] !== local.base) return false;
    return scopes.every((scope, i) => {
      const theirs = found[i + 1];
      if (theirs === undefined) return !local.scopes.has(scope);
      return this.take(view, scope, theirs) !== "doubtful";
    });
  }

  /** Reads, and mends what Redis lacks. Returns whether the reading took no longer than `limit`. */
  async read(view: PartitionView, limit: Duration): Promise<boolean> {
    const reading = this.run(view, readEpochs, []);
    const isFast = withReply(reading, limit, this.clock).then(
      () => true,
      (error: unknown) => !(error instanceof TimedOut),
    );
    const reply = parseEpochsReply(await reading);
    view.clockOffset = reply.time - this.clock.now();
    if (!this.takeAll(view, reply.epochs)) await this.merge(view);
    view.isKnown = true;
    return isFast;
  }

  /** Writes the purges that are not in Redis yet; those made while it is at it go with the next time. */
  flush(view: PartitionView): Promise<void> {
    view.flushing ??= this.flushOnce(view).finally(() => {
      view.flushing = undefined;
    });
    return view.flushing;
  }

  private async flushOnce(view: PartitionView): Promise<void> {
    if (view.pending.size === 0) return;
    const batch = [...view.pending];
    const args = [this.connection.keys.channel, view.tag, randomPart(), ...batch.flat()];
    let raised = await this.run(view, raiseEpochs, args);
    if (raised === null) {
      await this.merge(view);
      raised = await this.run(view, raiseEpochs, args);
    }
    const epochs = raised as Epoch[];
    for (const [i, [scope, noted]] of batch.entries()) {
      if (view.pending.get(scope) === noted) view.pending.delete(scope);
      this.take(view, scope, epochs[i]!);
    }
  }

  private async merge(view: PartitionView): Promise<void> {
    const { base, scopes } = this.epochs.read(view.partition);
    const known = view.isKnown ? "1" : "0";
    const args = [known, randomPart(), this.connection.keys.channel, view.tag, base, ...[...scopes].flat()];
    this.takeAll(view, parseEpochsReply(await this.run(view, mergeEpochs, args)).epochs);
    view.isKnown = true;
  }

  /** Takes over what is newer in Redis. False when Redis lacks something. */
  private takeAll(view: PartitionView, theirs: EpochSet | undefined): boolean {
    if (theirs === undefined) return false;
    const ours = this.epochs.read(view.partition);
    if (theirs.base !== ours.base) {
      if (view.isKnown && !isNewer(theirs.base, ours.base)) return false;
      this.epochs.replace(view.partition, theirs);
      return true;
    }
    let isComplete = true;
    for (const [scope, epoch] of theirs.scopes) {
      if (this.take(view, scope, epoch) === "doubtful") isComplete = false;
    }
    for (const scope of ours.scopes.keys()) {
      if (!theirs.scopes.has(scope)) isComplete = false;
    }
    return isComplete;
  }

  private run(view: PartitionView, script: Script, args: string[]): Promise<unknown> {
    return this.connection.run({ script, keys: [this.connection.keys.epochs(view.tag)], args });
  }
}

function isNewer(epoch: Epoch, than: Epoch | undefined): boolean {
  return than === undefined || epochCount(epoch) > epochCount(than);
}

function randomPart(): string {
  return randomBytes(9).toString("base64url");
}

/** What {@link readEpochs} and {@link mergeEpochs} return. */
interface EpochsReply {
  readonly time: number;
  /** Undefined when Redis has none. */
  readonly epochs: EpochSet | undefined;
}

function parseEpochsReply(reply: unknown): EpochsReply {
  const [time, flat] = reply as [number, string[]];
  const scopes = new Map<string, Epoch>();
  for (let i = 0; i + 1 < flat.length; i += 2) scopes.set(flat[i]!, flat[i + 1]!);
  const base = scopes.get(BASE);
  scopes.delete(BASE);
  return { time, epochs: base === undefined ? undefined : { base, scopes } };
}
