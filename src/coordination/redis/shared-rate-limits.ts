import type { Clock, Duration, Instant } from "../../clock.ts";
import type { CallGrant, CallLimit, MaybePromise } from "../coordinator.ts";
import { CallWindows, KEPT_FOR_OTHERS, WANTED_FOR } from "../call-windows.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { MAX_WAIT } from "./partition-views.ts";
import { clearForeign, defineScript, type Message, NOW_MICROSECONDS } from "./protocol.ts";
import { CHANGING_OVER, type Replicas } from "./replicas.ts";
import { CALLS_BY_MEMBER, REFUSED, SealedCalls } from "./sealed-calls.ts";
import type { SharedEpochs } from "./shared-epochs.ts";

/**
 * Lua, where several share a limit: what the count of calls may be for one of them to have another (`most`), see
 * `mostFor` in call-windows.ts. KEYS[2] has the count of each, and is made anew when it does not add up.
 */
const MOST_OF_MEMBER = `
local counts, refused, sum = {}, {}, 0
local function read()
  counts, refused, sum = {}, {}, 0
  local all = redis.call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    local name = all[i]
    if string.sub(name, 1, 1) ~= '${REFUSED}' then
      local number = tonumber(all[i + 1]) or 0
      counts[name], sum = number, sum + number
    else
      local at = tonumber(string.match(all[i + 1], '^%d+')) or 0
      if at <= now and now - at < per * ${WANTED_FOR} then refused[string.sub(name, 2)] = true
      else redis.call('HDEL', KEYS[2], name) end
    end
  end
end
read()
if sum ~= taken then
  redis.call('DEL', KEYS[2])
  for member, number in pairs(byMember(redis.call('ZRANGE', KEYS[1], 0, -1))) do count(member, number) end
  read()
end
local members = (counts[ARGV[4]] or refused[ARGV[4]]) and 0 or 1
for _ in pairs(counts) do members = members + 1 end
for name in pairs(refused) do if not counts[name] then members = members + 1 end end
local part = requests / math.max(2, members)
if (counts[ARGV[4]] or 0) >= part then
  local missing = 0
  for name in pairs(refused) do
    if name ~= ARGV[4] then missing = missing + math.max(0, math.floor(part) - (counts[name] or 0)) end
  end
  most = requests - math.max(math.ceil(requests * ${KEPT_FOR_OTHERS}), missing)
elseif taken >= requests then
  redis.call('HSET', KEYS[2], '${REFUSED}' .. ARGV[4], string.format('%d %s', now, ARGV[5]))
  redis.call('PEXPIRE', KEYS[2], math.ceil(per * ${WANTED_FOR}) + 1000)
end`;

/**
 * Takes one call out of a rate limit, exact in any window. KEYS: rate limit, the counts of its members. ARGV: requests,
 * per (ms), a name for the call, the member ('' where there are no others), what marks it as refused (see SealedCalls);
 * where it is beyond the replica's share, the channel to say so on, and the message. Returns 1 and the calls left, or 0 and the
 * milliseconds until one may become free.
 */
const takeCall = defineScript(
  "call_take",
  "allow-oom",
  `${NOW_MICROSECONDS} ${clearForeign("zset")} ${CALLS_BY_MEMBER}
local requests, per = tonumber(ARGV[1]), tonumber(ARGV[2])
local hasMembers = ARGV[4] ~= ''
local function count(member, by)
  local held = redis.pcall('HINCRBY', KEYS[2], member, by)
  -- What is no number that Redis counts with is made anew from the calls.
  if type(held) ~= 'number' then redis.call('DEL', KEYS[2])
  elseif held <= 0 then redis.call('HDEL', KEYS[2], member) end
end
local function drop(from, to)
  if hasMembers then
    local dropped = byMember(redis.call('ZRANGE', KEYS[1], from, to, 'BYSCORE'))
    for member, number in pairs(dropped) do count(member, -number) end
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[1], from, to)
end
if hasMembers and not redis.call('TYPE', KEYS[2]).ok:match('^[hn]') then redis.call('DEL', KEYS[2]) end
drop('-inf', string.format('%.3f', now - per))
-- Left behind by a clock that was set back, or forged: what is of the future counts for one window from now at most.
drop(string.format('(%.3f', now + per), '+inf')
for _, call in ipairs(redis.call('ZRANGE', KEYS[1], string.format('(%.3f', now), '+inf', 'BYSCORE')) do
  redis.call('ZADD', KEYS[1], string.format('%.3f', now), call)
end
local taken = redis.call('ZCARD', KEYS[1])
local most = requests
if hasMembers then ${MOST_OF_MEMBER}
end
if taken < most then
  redis.call('ZADD', KEYS[1], string.format('%.3f', now), ARGV[3])
  redis.call('PEXPIRE', KEYS[1], math.ceil(per) + 1000)
  if hasMembers then
    count(ARGV[4], 1)
    redis.call('PEXPIRE', KEYS[2], math.ceil(per * ${WANTED_FOR}) + 1000)
  end
  if ARGV[6] then redis.call('PUBLISH', ARGV[6], ARGV[7]) end
  return { 1, requests - taken - 1 }
end
if most < 1 then return { 0, math.ceil(per) } end
local blocking = redis.call('ZRANGE', KEYS[1], taken - most, taken - most, 'WITHSCORES')
return { 0, math.max(1, math.ceil(blocking[2] + per - now)) }`,
);

/** Notes calls made earlier. KEYS: rate limit. ARGV: per (ms), then age (ms) and name of each call in turns. */
const reportCalls = defineScript(
  "calls_report",
  "allow-oom",
  `${NOW_MICROSECONDS} ${clearForeign("zset")}
for i = 2, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], 'NX', string.format('%.3f', now - tonumber(ARGV[i])), ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[1], math.ceil(tonumber(ARGV[1])) + 1000)`,
);

/**
 * For so long calls are held back when Redis went away, or has not been there yet: mostly it is there by then, and a
 * call granted without it could be one too many.
 */
const HELD_BACK: Duration = 350;

export interface SharedRateLimitsOptions {
  readonly connection: RedisConnection;
  readonly epochs: SharedEpochs;
  readonly replicas: Replicas;
  readonly clock: Clock;
  readonly observer: Pick<RedisObserver, "valueRejected">;
}

/**
 * Rate limits counted in Redis; while it is away each replica takes its share of them. From when Redis is there, first
 * or again, count and share hold together until every replica has noticed: no replica counts while another does not.
 */
export class SharedRateLimits {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly replicas: Replicas;
  private readonly clock: Clock;
  /** What this replica called, granted by Redis or by its share. */
  private readonly windows: CallWindows;
  private readonly sealed: SealedCalls;
  /** Calls of each rate limit that Redis has been asked for and has not answered: noted, and maybe not granted. */
  private readonly asking = new Map<string, number>();
  /** What the others called beyond their shares, by the rate limit's key: it is missing from the share of this one. */
  private readonly borrowed: CallWindows;
  /** The share of this replica holds beside the count in Redis until this instant. */
  private sharedUntil: Instant = Infinity;
  private lostAt: Instant;

  constructor(options: SharedRateLimitsOptions) {
    this.connection = options.connection;
    this.epochs = options.epochs;
    this.replicas = options.replicas;
    this.clock = options.clock;
    this.windows = new CallWindows(options.clock);
    this.sealed = new SealedCalls(options);
    this.borrowed = new CallWindows(options.clock);
    this.lostAt = options.clock.now();
  }

  take(name: string, limit: CallLimit): MaybePromise<CallGrant> {
    if (!this.epochs.isUsable) return this.takeShare(name, limit);
    const sharedFor = this.sharedUntil - this.clock.now();
    if (sharedFor > 0) {
      const retryIn = this.shareIn(name, limit);
      if (retryIn > 0) return { granted: false, retryIn: Math.min(retryIn, sharedFor) };
    }
    return this.takeCounted(name, limit);
  }

  /** Redis is away: what it counts is not what is called from now on. */
  lost(): void {
    this.lostAt = this.clock.now();
    this.sharedUntil = Infinity;
  }

  /** Redis is there. */
  regained(): void {
    this.sharedUntil = this.clock.now() + CHANGING_OVER;
    this.report();
  }

  received({ key, by, per }: Extract<Message, { kind: "borrowed" }>): void {
    if (by !== this.replicas.id) this.borrowed.note(key, { per });
  }

  private async takeCounted(name: string, limit: CallLimit): Promise<CallGrant> {
    const breaker = this.epochs.breakerEverywhere;
    const { session } = breaker;
    const key = this.connection.keys.rateLimit(name);
    const keys = limit.member === undefined ? [key] : [key, this.connection.keys.membersOf(key)];
    const { requests, per, member } = limit;
    const isBeyond = this.windows.count(name, per) >= this.replicas.shareOf(requests);
    // Noted before it is granted: of many calls at once each sees the others.
    const at = this.windows.note(name, limit);
    this.asking.set(name, (this.asking.get(name) ?? 0) + 1);
    const args = [
      requests,
      per,
      this.nameCall(key, at, member),
      member ?? "",
      member === undefined ? "" : this.sealed.mark(key, member),
      ...(isBeyond ? [this.connection.keys.channel, this.sayBorrowed(key, per)] : []),
    ];
    try {
      let [granted, number] = await this.ask(keys, args);
      if (granted === 0 && (await this.sealed.dropForged(key, limit))) [granted, number] = await this.ask(keys, args);
      if (granted === 1) {
        const called = this.windows.count(name, per) - (this.asking.get(name)! - 1);
        // Fewer than were called from here alone: Redis forgot, or was made to forget, and is told anew.
        if (requests - number < called && this.asking.get(name) === 1) this.report(name);
        if (called <= requests) return { granted: true, left: number };
      }
      this.windows.forget(name, per, at);
      return { granted: false, retryIn: granted === 1 ? this.windows.retryIn(name, { requests, per }) : number };
    } catch {
      this.windows.forget(name, per, at);
      this.epochs.fail(breaker, session);
      // Noticed late, when Redis is there again already: what is called now has to be counted there.
      return this.epochs.isUsable ? { granted: false, retryIn: MAX_WAIT } : this.takeShare(name, limit);
    } finally {
      const asking = this.asking.get(name)! - 1;
      if (asking > 0) this.asking.set(name, asking);
      else this.asking.delete(name);
    }
  }

  /** Whether it was granted (1), and the calls left or the milliseconds until one may become free. */
  private async ask(keys: readonly string[], args: readonly (string | number)[]): Promise<[0 | 1, number]> {
    return (await this.connection.run({ script: takeCall, keys, args }, MAX_WAIT)) as [0 | 1, number];
  }

  private sayBorrowed(key: string, per: Duration): string {
    return this.connection.message({ kind: "borrowed", key, by: this.replicas.id, per });
  }

  private takeShare(name: string, limit: CallLimit): CallGrant {
    const heldBack = this.lostAt + HELD_BACK - this.clock.now();
    if (heldBack > 0) return { granted: false, retryIn: Math.min(heldBack, MAX_WAIT) };
    const retryIn = this.shareIn(name, limit);
    if (retryIn > 0) return { granted: false, retryIn };
    this.windows.note(name, limit);
    return { granted: true, left: this.shareOf(name, limit) - this.windows.count(name, limit.per) };
  }

  /** How long until this replica's share allows a call; 0 when it does now. */
  private shareIn(name: string, limit: CallLimit): Duration {
    const requests = this.shareOf(name, limit);
    if (requests > 0) return this.windows.retryIn(name, { ...limit, requests });
    // The others have it all: until the first of their calls is out of the window.
    const key = this.connection.keys.rateLimit(name);
    const lent = this.borrowed.count(key, limit.per);
    return lent === 0 ? limit.per : this.borrowed.retryIn(key, { per: limit.per, requests: lent });
  }

  private shareOf(name: string, { requests, per }: CallLimit): number {
    return this.replicas.shareOf(requests) - this.borrowed.count(this.connection.keys.rateLimit(name), per);
  }

  /** Tells Redis what was called without it, of one rate limit or of all. */
  private report(only?: string): void {
    const now = this.clock.now();
    for (const { name, per, calls, callers } of this.windows.all()) {
      if (calls.length === 0 || (only !== undefined && name !== only)) continue;
      const key = this.connection.keys.rateLimit(name);
      const args = [per, ...calls.flatMap((at, i) => [now - at, this.nameCall(key, at, callers[i])])];
      const call = { script: reportCalls, keys: [key], args };
      // All are sent before any call is counted: replies are not waited for.
      this.connection.run(call, CHANGING_OVER).catch(() => {});
    }
  }

  private nameCall(key: string, at: Instant, member: string | undefined): string {
    return this.sealed.name(key, { at, by: this.replicas.id, member });
  }
}
