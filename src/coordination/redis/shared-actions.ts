import { type CancelTimer, type Clock, type Duration, valueWithin } from "../../clock.ts";
import { type ActionOrder, type Actions, type HeldAction, MAX_ACTIONS, parseAction, targetOf } from "../actions.ts";
import type { PurgeReach } from "../coordinator.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { clearForeign, defineScript, NOW } from "./protocol.ts";

/** How often they are read again, for messages that were lost: an action has effect everywhere within 2 s. */
const READ_EVERY: Duration = 500;

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
 * Writes actions, and tells the others to read. KEYS: actions. ARGV: channel, then of each: target, stamp ('' where it
 * was never here), age (ms), how long it lasts (ms; '' for ever) and the action. Returns what {@link readActions} does.
 *
 * For each target the later one stays. One that an operator asked for just now is later than all, whatever Redis's
 * clock did meanwhile.
 */
const writeActions = defineScript(
  "actions_write",
  "allow-oom",
  `${NOW} ${clearForeign("hash")}
if redis.call('HLEN', KEYS[1]) > ${MOST} then redis.call('DEL', KEYS[1]) end
for i = 2, #ARGV, 5 do
  local held = redis.call('HGET', KEYS[1], ARGV[i])
  local last = held and tonumber(string.match(held, '^%[(%d+),')) or -1
  -- Beyond all clocks, and nothing could be later: it is foreign.
  if last > ${LATEST} then last = -1 end
  local age = tonumber(ARGV[i + 2])
  local stamp = tonumber(ARGV[i + 1])
  if not stamp then
    stamp = math.floor(now - age)
    if age < 1000 then stamp = math.max(stamp, last + 1) end
  end
  if stamp > last then
    local ends = ARGV[i + 3] == '' and 'null' or string.format('%d', now + tonumber(ARGV[i + 3]))
    redis.call('HSET', KEYS[1], ARGV[i], string.format('[%d,', stamp) .. ends .. ',' .. ARGV[i + 4] .. ']')
  end
end
local latest = 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ends = tonumber(string.match(all[i + 1], '^%[%d+,(%d+),')) or math.huge
  if ends <= now then redis.call('HDEL', KEYS[1], all[i]) else latest = math.max(latest, ends) end
end
if latest == math.huge then redis.call('PERSIST', KEYS[1])
elseif latest > 0 then redis.call('PEXPIREAT', KEYS[1], string.format('%d', latest)) end
redis.call('PUBLISH', ARGV[1], cjson.encode({ 'actions' }))
return { now, redis.call('HGETALL', KEYS[1]) }`,
);

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
  /** Known here, and missing or older in Redis when it was last read. */
  private lost: readonly HeldAction[] = [];
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
    const unwritten = table.everything().filter(({ stamp }) => stamp === undefined);
    const sent = new Set([...unwritten, ...this.lost.filter((each) => table.held(targetOf(each.action)) === each)]);
    const keys = [connection.keys.actions];
    const reply = await connection.run(
      sent.size === 0
        ? { script: readActions, keys, args: [] }
        : {
            script: writeActions,
            keys,
            args: [connection.keys.channel, ...[...sent].flatMap((each) => this.write(each))],
          },
    );
    const [time, flat] = reply as [number, string[]];
    const theirs = new Map<string, HeldAction>();
    for (let i = 0; i + 1 < flat.length; i += 2) {
      const held = this.read(flat[i + 1]!, time);
      if (held === undefined || targetOf(held.action) !== flat[i]) this.observer.valueRejected("action");
      else theirs.set(flat[i]!, held);
    }
    for (const [target, held] of theirs) this.take(target, held, sent);
    this.lost = table.everything().filter((held) => this.isLost(held, theirs));
    this.firstRead.resolve();
  }

  /** Takes over what is newer, and the stamp of what was written just now. */
  private take(target: string, theirs: HeldAction, sent: ReadonlySet<HeldAction>): void {
    const ours = this.table.held(target);
    // Done here since it was asked: it goes there with the next time.
    if (ours !== undefined && ours.stamp === undefined && !sent.has(ours)) return;
    if (ours?.stamp === undefined || theirs.stamp! > ours.stamp) this.table.put(theirs);
  }

  private isLost({ action, stamp, until }: HeldAction, theirs: ReadonlyMap<string, HeldAction>): boolean {
    if (stamp === undefined || (until !== undefined && until - this.clock.now() < ENDING)) return false;
    return (theirs.get(targetOf(action))?.stamp ?? -1) < stamp;
  }

  private write(held: HeldAction): (string | number)[] {
    const { action, age, lasts } = this.table.message(held);
    const left = lasts === undefined ? "" : Math.max(0, Math.floor(lasts));
    return [targetOf(action), held.stamp ?? "", Math.max(0, Math.floor(age)), left, JSON.stringify(action)];
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
