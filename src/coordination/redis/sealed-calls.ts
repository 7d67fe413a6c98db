import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { CallLimit } from "../coordinator.ts";
import { WANTED_FOR } from "../call-windows.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { clearForeign, defineScript } from "./protocol.ts";
import type { SharedEpochs } from "./shared-epochs.ts";

/** Ends the member's name in the name of a call. */
const OF = "|";

/** Lua: how many of these calls each member made. */
export const CALLS_BY_MEMBER = `
local function byMember(calls)
  local numbers = {}
  for _, call in ipairs(calls) do
    local member = string.match(call, '^(.-)%${OF}') or ''
    numbers[member] = (numbers[member] or 0) + 1
  end
  return numbers
end`;

/** Before a member's name, when it was last refused that had not had its part. */
export const REFUSED = "?";

/** Calls that are looked at with one question. */
const AT_ONCE = 500;

/** A limit is looked at again after this time: where all was genuine, and where something was removed. */
const LOOK_AGAIN_AFTER: Duration = 100;
const LOOK_ON_AFTER: Duration = 10;

/** Limits and genuine calls that are remembered; those looked at longest ago are forgotten first. */
const MOST_LIMITS = 4_096;
const MOST_CALLS = 10_000;

/** So far replicas may misjudge Redis's clock on a busy machine. */
const MISJUDGED: Duration = 2_000;

/**
 * Reads calls and what stands beside them. KEYS: rate limit, the counts of its members. ARGV: rank of the first call, how
 * many, 1 where the limit has members. Returns how many calls there are, those asked for, names and values of marks, and
 * whether the counts were wrong: made of the calls alone, they are removed then, to be made anew.
 */
const readCalls = defineScript(
  "calls_read",
  "allow-oom",
  `${clearForeign("zset")} ${CALLS_BY_MEMBER}
local first = tonumber(ARGV[1])
local reply = { redis.call('ZCARD', KEYS[1]), redis.call('ZRANGE', KEYS[1], first, first + ARGV[2] - 1), {}, 0 }
if ARGV[3] ~= '1' or redis.call('TYPE', KEYS[2]).ok ~= 'hash' then return reply end
local counts = first == 0 and byMember(redis.call('ZRANGE', KEYS[1], 0, -1))
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 1) == '${REFUSED}' then
    if #reply[3] < 2 * ARGV[2] then
      table.insert(reply[3], all[i])
      table.insert(reply[3], all[i + 1])
    end
  elseif counts and tonumber(all[i + 1]) ~= counts[all[i]] then
    redis.call('DEL', KEYS[2])
    reply[4] = 1
    return reply
  end
end
return reply`,
);

/** Removes calls and marks. KEYS: rate limit, the counts of its members. ARGV: how many calls, these, then marks. */
const dropCalls = defineScript(
  "calls_drop",
  "allow-oom",
  `
local count = tonumber(ARGV[1])
for i = 2, count + 1 do redis.call('ZREM', KEYS[1], ARGV[i]) end
for i = count + 2, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end`,
);

/** How far a limit was looked at. */
interface Look {
  nextRank: number;
  notBefore: Instant;
  current: Promise<boolean> | undefined;
}

export interface SealedCallsOptions {
  readonly connection: RedisConnection;
  readonly epochs: SharedEpochs;
  readonly clock: Clock;
  readonly observer: Pick<RedisObserver, "valueRejected">;
}

/**
 * The calls of rate limits as they are in Redis: each has a name, made by the replica that makes the call, and sealed
 * with it. Redis counts them without knowing which are genuine; so a replica that is refused looks at those that stand
 * in its way, and removes what no gateway wrote.
 */
export class SealedCalls {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly clock: Clock;
  private readonly observer: Pick<RedisObserver, "valueRejected">;
  private readonly looks = new LRUCache<string, Look>({ max: MOST_LIMITS });
  /** When each was made (Redis's clock), by its name and place: opening it again costs more than finding it. */
  private readonly genuine = new LRUCache<string, Instant>({ max: MOST_CALLS });
  private origin: Duration | undefined;

  constructor({ connection, epochs, clock, observer }: SealedCallsOptions) {
    this.connection = connection;
    this.epochs = epochs;
    this.clock = clock;
    this.observer = observer;
  }

  /** The same call always has the same name, so that it may be reported twice and counts once. */
  name(key: string, { at, by, member = "" }: { at: Instant; by: string; member?: string | undefined }): string {
    const prefix = member === "" ? "" : member + OF;
    return this.connection.seals.seal({ kind: "limit", key }, `${prefix}${by}:${(at + this.ahead).toFixed(3)}`);
  }

  /** What says that a member is refused now. */
  mark(key: string, member: string): string {
    const at = (this.clock.now() + this.ahead).toFixed(3);
    return this.connection.seals.seal({ kind: "limit", key, field: REFUSED + member }, at);
  }

  /** After a call was refused: whether something that no gateway wrote was removed. Never rejects. */
  dropForged(key: string, limit: CallLimit): Promise<boolean> {
    if (!this.connection.seals.areOn) return Promise.resolve(false);
    const now = this.clock.now();
    const look = this.looks.get(key) ?? { nextRank: 0, notBefore: -Infinity, current: undefined };
    this.looks.set(key, look);
    if (look.current !== undefined) return look.current;
    if (now < look.notBefore) return Promise.resolve(false);
    look.current = this.look(key, limit, look)
      .catch(() => false)
      .then((hasDropped) => {
        look.current = undefined;
        look.notBefore = this.clock.now() + (hasDropped ? LOOK_ON_AFTER : LOOK_AGAIN_AFTER);
        return hasDropped;
      });
    return look.current;
  }

  private async look(key: string, { per, member }: CallLimit, look: Look): Promise<boolean> {
    const keys = [key, this.connection.keys.membersOf(key)];
    const args = [look.nextRank, AT_ONCE, member === undefined ? 0 : 1];
    const reply = await this.epochs.askElsewhere({ script: readCalls, keys, args, binary: true });
    const [count, calls, marks, isMiscounted] = reply as [number, Buffer[], Buffer[], 0 | 1];
    if (isMiscounted === 1) this.observer.valueRejected("limit", "form");
    const forged = calls.filter((call) => !this.isCall(key, call.toString(), per));
    const refused = marks.filter(
      (name, i) => i % 2 === 0 && !this.isMark(key, name.toString(), marks[i + 1]!.toString(), per),
    );
    const next = look.nextRank + calls.length - forged.length;
    look.nextRank = next < count - forged.length ? next : 0;
    if (forged.length + refused.length === 0) return isMiscounted === 1;
    for (let i = 0; i < forged.length + refused.length; i += 1) this.observer.valueRejected("limit", "seal");
    await this.epochs.askElsewhere({ script: dropCalls, keys, args: [forged.length, ...forged, ...refused] });
    return true;
  }

  private isCall(key: string, call: string, per: Duration): boolean {
    const name = `${key} ${call}`;
    let at = this.genuine.get(name);
    if (at === undefined) {
      const opened = this.connection.seals.open({ kind: "limit", key }, call);
      if (opened === undefined) return false;
      at = Number(opened.text.slice(opened.text.lastIndexOf(":") + 1));
      this.genuine.set(name, at);
    }
    return this.isRecent(at, per);
  }

  private isMark(key: string, field: string, value: string, per: Duration): boolean {
    const sealed = value.slice(value.indexOf(" ") + 1);
    const opened = this.connection.seals.open({ kind: "limit", key, field }, sealed);
    return opened !== undefined && this.isRecent(Number(opened.text), per * WANTED_FOR);
  }

  /** What is older was put back. One of the future is of before a clock was set back. */
  private isRecent(at: Instant, per: Duration): boolean {
    return at > this.clock.now() + this.epochs.clockOffset - per - MISJUDGED;
  }

  /** How far Redis's clock is ahead: as first read, so that names stay, until one of both clocks is set. */
  private get ahead(): Duration {
    const { clockOffset } = this.epochs;
    if (this.origin === undefined || Math.abs(clockOffset - this.origin) > MISJUDGED / 2) this.origin = clockOffset;
    return this.origin;
  }
}
