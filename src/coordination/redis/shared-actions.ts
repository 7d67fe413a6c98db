import { type CancelTimer, type Clock, type Duration, type Instant, valueWithin } from "../../clock.ts";
import { type ActionOrder, type Actions, type HeldAction, MAX_ACTIONS, parseAction, targetOf } from "../actions.ts";
import type { PurgeReach } from "../coordinator.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { clearForeign, defineScript, NOW } from "./protocol.ts";
import type { OpenedText, SealedPlace } from "./seals.ts";

/** How often they are read again, for messages that were lost: an action has effect everywhere within 2 s. */
const READ_EVERY: Duration = 500;

/** An action as old as this was asked for while Redis was there. */
const JUST_NOW: Duration = 1_000;

/** An exchange that runs when an operator acts does not take the action along; the next one does. */
const WRITE_ROUNDS = 3;

/** What ends so soon is not written again where Redis lacks it: by its clock it may be over. */
const ENDING: Duration = 2_000;

/** Targets in Redis; what is more is foreign. */
const MOST = 4 * MAX_ACTIONS;

/** Unix ms, in the year 5138. */
const LATEST = 1e14;

/** KEYS: actions. Returns Redis's time (ms) and the hash of target → `[stamp, until, action]`. */
const readActions = defineScript(
  "actions_read",
  "no-writes",
  `${NOW}
local count = redis.pcall('HLEN', KEYS[1])
if type(count) ~= 'number' or count > ${MOST} then return { now, { '', '' } } end
return { now, redis.call('HGETALL', KEYS[1]) }`,
);

/**
 * Writes actions where Redis has what this process saw there, and tells the others to read. KEYS: actions. ARGV: channel,
 * message, then target, text seen ('' for none) and new text in turns. Returns what {@link readActions} does.
 */
const writeActions = defineScript(
  "actions_write",
  "allow-oom",
  `${NOW} ${clearForeign("hash")}
if redis.call('HLEN', KEYS[1]) > ${MOST} then redis.call('DEL', KEYS[1]) end
for i = 3, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') == ARGV[i + 1] then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2]) end
end
local latest = 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ends = tonumber(string.match(all[i + 1], '^%[%d+,(%d+),')) or math.huge
  if ends <= now then redis.call('HDEL', KEYS[1], all[i]) else latest = math.max(latest, ends) end
end
if latest == math.huge then redis.call('PERSIST', KEYS[1])
elseif latest > 0 then redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', latest)) end
redis.call('PUBLISH', ARGV[1], ARGV[2])
return { now, redis.call('HGETALL', KEYS[1]) }`,
);

/** Orders that are sealed with a key on its way out are sealed anew no more often. */
const SEAL_AGAIN_AFTER: Duration = 5_000;

/** What Redis has. */
interface Found {
  readonly time: number;
  /** As it is there, by target. */
  readonly texts: ReadonlyMap<string, string>;
  /** What of it is ours and understood. */
  readonly actions: ReadonlyMap<string, HeldAction>;
  /** Sealed with a key on its way out. */
  readonly outdated: readonly HeldAction[];
}

export interface SharedActionsOptions {
  readonly connection: RedisConnection;
  readonly table: Actions;
  readonly clock: Clock;
  readonly observer: Pick<RedisObserver, "valueRejected">;
}

/**
 * Keeps the actions of this process and those in Redis the same: written when an operator acts, told by message, read
 * again in short intervals. What Redis lost is written there again; what was done while it was away, when it is back.
 */
export class SharedActions {
  private readonly connection: RedisConnection;
  private readonly table: Actions;
  private readonly clock: Clock;
  private readonly observer: SharedActionsOptions["observer"];
  private readonly firstRead = Promise.withResolvers<void>();
  private running: Promise<void> | undefined;
  /** What is in Redis and is none of ours, by target. */
  private rejected: ReadonlyMap<string, string> = new Map();
  private sealAgainAt: Instant = -Infinity;
  private cancelTimer: CancelTimer | undefined;

  constructor({ connection, table, clock, observer }: SharedActionsOptions) {
    this.connection = connection;
    this.table = table;
    this.clock = clock;
    this.observer = observer;
    this.tick();
  }

  /** See {@link Coordinator.act}. */
  async act(order: ActionOrder): Promise<PurgeReach> {
    const held = this.table.begin(order);
    const isUnwritten = () => this.table.held(targetOf(held.action)) === held;
    try {
      for (let round = 0; round < WRITE_ROUNDS && isUnwritten() && this.connection.isConnected; round += 1) {
        await this.synchronise();
      }
    } catch {
      // It is written as soon as Redis answers again.
    }
    return isUnwritten() ? "pending" : "fleet";
  }

  /** There may be something new: a message says so, or the connection is new. */
  look(): void {
    if (this.connection.isConnected) this.synchronise().catch(() => undefined);
  }

  /** Resolves once Redis was read, or after `timeout`. */
  async whenRead(timeout: Duration): Promise<void> {
    await valueWithin(this.firstRead.promise, timeout, this.clock);
  }

  close(): void {
    this.cancelTimer?.();
    this.table.close();
    this.firstRead.resolve();
  }

  private tick(): void {
    this.cancelTimer = this.clock.after(READ_EVERY, () => {
      this.look();
      this.tick();
    });
  }

  /** One after the other: who comes while it runs waits for that one, and looks whether it was enough. */
  private synchronise(): Promise<void> {
    this.running ??= this.exchange().finally(() => {
      this.running = undefined;
    });
    return this.running;
  }

  private async exchange(): Promise<void> {
    const { connection, table } = this;
    const keys = [connection.keys.actions];
    let found = this.parse(await connection.run({ script: readActions, keys, args: [] }));
    this.takeAll(found);
    const lost = table.everything().filter((held) => held.stamp === undefined || this.isLost(held, found.actions));
    const unsent = [...(this.mustSealAgain() ? found.outdated : []), ...lost];
    const texts = new Map<string, string>();
    for (const held of unsent) {
      const text = this.write(held, found);
      const target = targetOf(held.action);
      // What another replica did later takes its place.
      if (text === undefined) table.put(found.actions.get(target)!);
      else texts.set(target, text);
    }
    if (texts.size > 0) {
      const triples = [...texts].flatMap(([target, text]) => [target, found.texts.get(target) ?? "", text]);
      const args = [connection.keys.channel, connection.message({ kind: "actions" }), ...triples];
      found = this.parse(await connection.run({ script: writeActions, keys, args }));
      for (const held of lost) {
        const target = targetOf(held.action);
        // It is there now: what is held has its stamp from then on. Else another replica was quicker, and it goes next.
        if (table.held(target) === held && found.texts.get(target) === texts.get(target)) {
          const theirs = found.actions.get(target);
          if (theirs !== undefined) table.put(theirs);
        }
      }
      this.takeAll(found);
    }
    this.firstRead.resolve();
  }

  /** Takes over what is newer. */
  private takeAll({ actions }: Found): void {
    for (const [target, theirs] of actions) {
      const ours = this.table.held(target);
      // What was done here and is not there yet goes there, later than all.
      if (ours !== undefined && ours.stamp === undefined) continue;
      if (ours?.stamp === undefined || theirs.stamp! > ours.stamp) this.table.put(theirs);
    }
  }

  private mustSealAgain(): boolean {
    const now = this.clock.now();
    if (!this.connection.seals.areOn || now < this.sealAgainAt) return false;
    this.sealAgainAt = now + SEAL_AGAIN_AFTER;
    return true;
  }

  private parse(reply: unknown): Found {
    const [time, flat] = reply as [number, string[]];
    const texts = new Map<string, string>();
    const actions = new Map<string, HeldAction>();
    const outdated: HeldAction[] = [];
    const rejected = new Map<string, string>();
    for (let i = 0; i + 1 < flat.length; i += 2) {
      const [target, text] = [flat[i]!, flat[i + 1]!];
      texts.set(target, text);
      const opened = this.open(target, text);
      const held = opened && this.read(opened.text, time);
      if (held !== undefined && targetOf(held.action) === target) {
        actions.set(target, held);
        if (opened?.isOutdated === true) outdated.push(held);
        continue;
      }
      // It is read twice a second and counts once.
      if (this.rejected.get(target) !== text) {
        this.observer.valueRejected("action", opened === undefined ? "seal" : "form");
      }
      rejected.set(target, text);
    }
    this.rejected = rejected;
    return { time, texts, actions, outdated };
  }

  private placeOf(target: string): SealedPlace {
    return { kind: "action", key: this.connection.keys.actions, field: target };
  }

  /** Without its seal, which is the last item of the list. */
  private open(target: string, text: string): OpenedText | undefined {
    if (!this.connection.seals.areOn) return { text, isOutdated: false };
    const [, list, seal] = /^(.*),"([\w-]{22})"\]$/s.exec(text) ?? [];
    return list === undefined ? undefined : this.connection.seals.check(this.placeOf(target), `${list}]`, seal!);
  }

  private isLost({ action, stamp, until }: HeldAction, theirs: ReadonlyMap<string, HeldAction>): boolean {
    if (stamp === undefined || (until !== undefined && until - this.clock.now() < ENDING)) return false;
    return (theirs.get(targetOf(action))?.stamp ?? -1) < stamp;
  }

  /**
   * An action as it is in Redis: `[stamp, until, action]` by Redis's clock, and its seal. One that an operator asked for
   * just now is later than all, whatever that clock did meanwhile. Undefined: there is a later one.
   */
  private write(held: HeldAction, { time, actions }: Found): string | undefined {
    const { action, age, lasts } = this.table.message(held);
    const target = targetOf(action);
    const last = actions.get(target)?.stamp ?? -1;
    const asked = Math.max(0, Math.floor(time - age));
    const stamp = held.stamp ?? (age < JUST_NOW ? Math.max(asked, last + 1) : asked);
    if (held.stamp === undefined && stamp <= last) return undefined;
    const until = lasts === undefined ? null : Math.floor(time + Math.max(0, lasts));
    const text = JSON.stringify([stamp, until, action]);
    const seal = this.connection.seals.sealOf(this.placeOf(target), text);
    return seal === "" ? text : `${text.slice(0, -1)},"${seal}"]`;
  }

  /** Undefined for what this version does not understand. */
  private read(value: string, time: number): HeldAction | undefined {
    let parts: unknown;
    try {
      parts = JSON.parse(value);
    } catch {
      return undefined;
    }
    if (!Array.isArray(parts)) return undefined;
    const [stamp, until, given] = parts as readonly unknown[];
    const action = parseAction(given);
    if (action === undefined || !isTime(stamp) || !(until === null || isTime(until))) return undefined;
    const now = this.clock.now();
    const ends = until === null ? undefined : now + (until - time);
    return { action, since: now - Math.max(0, time - stamp), until: ends, stamp };
  }
}

function isTime(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= LATEST;
}
