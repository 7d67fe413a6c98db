import type { ClientContext, Result } from "ioredis";
import { EVERYBODY } from "../epochs.ts";
import { SLOTS } from "../windows.ts";

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    readEntryBuffer(key: string): Result<[value: Buffer, remaining: number] | null, Context>;
    takeCall(key: string, ...windows: number[]): Result<[isGranted: number, retryIn: number], Context>;
    raiseEpoch(key: string, channel: string, party: string, ...epoch: number[]): Result<string, Context>;
    keepLease(key: string, token: string, life: number): Result<number, Context>;
    beat(
      key: string,
      replica: string,
      ...times: [life: number, silent: number, memory: number, mayTakeOver: 0 | 1]
    ): Result<[live: number, lost: number, longest: number, hasTakenOver: 0 | 1], Context>;
  }
}

/** Reads an entry and the life that is left to it: in one round trip, and of one moment. */
const READ_ENTRY = `
local value = redis.call('GET', KEYS[1])
return value and { value, redis.call('PTTL', KEYS[1]) }`;

/**
 * Takes one call in all windows or in none, by Redis's clock. ARGV: for each window its length (ms) and its calls. KEYS: a hash
 * of \`<length>:<slot>\` → calls. Gives whether it was granted, and else when to ask again.
 */
const TAKE_CALL = `
local time = redis.call('TIME')
local now, all = time[1] * 1000 + math.floor(time[2] / 1000), redis.call('HGETALL', KEYS[1])
local counts, wait, longest = {}, 0, 0
for i = 1, #all, 2 do
  local per, at = string.match(all[i], '^(%d+):(%d+)$')
  local slot = per and per / ${SLOTS}
  -- Out of its window, or of before the clock was set back.
  if not slot or (at + ${SLOTS} + 1) * slot <= now or at * slot > now + per then redis.call('HDEL', KEYS[1], all[i])
  else
    counts[per] = counts[per] or {}
    table.insert(counts[per], { at = tonumber(at), calls = tonumber(all[i + 1]) })
    longest = math.max(longest, per)
  end
end
for w = 1, #ARGV, 2 do
  local slot, slots, over = ARGV[w] / ${SLOTS}, counts[ARGV[w]] or {}, 1 - ARGV[w + 1]
  for _, each in ipairs(slots) do over = over + each.calls end
  table.sort(slots, function(a, b) return a.at < b.at end)
  for _, each in ipairs(slots) do
    if over <= 0 then break end
    over = over - each.calls
    wait = math.max(wait, (each.at + ${SLOTS} + 1) * slot - now)
  end
  longest = math.max(longest, tonumber(ARGV[w]))
end
if wait > 0 then return { 0, math.ceil(wait) } end
for w = 1, #ARGV, 2 do
  local slot = string.format('%.0f', math.floor(now / (ARGV[w] / ${SLOTS})))
  -- Two windows of one length have one count.
  if ARGV[w] ~= ARGV[w - 2] then redis.call('HINCRBY', KEYS[1], ARGV[w] .. ':' .. slot, 1) end
end
redis.call('PEXPIRE', KEYS[1], math.ceil(longest * 1.1))
return { 1, 0 }`;

/**
 * Raises an epoch, and tells all replicas. ARGV: channel, party, epoch, and by how much it has to be above what is stored:
 * 1 for a purge, 0 for what Redis has lost. Gives the epoch as text: an integer reply would be cut off.
 */
const RAISE_EPOCH = `
local stored = ARGV[2] == '${EVERYBODY}' and redis.call('HVALS', KEYS[1]) or redis.call('HMGET', KEYS[1], ARGV[2], '${EVERYBODY}')
local epoch = tonumber(ARGV[3])
for _, each in ipairs(stored) do epoch = math.max(epoch, (tonumber(each or 0) or 0) + ARGV[4]) end
epoch = string.format('%.0f', epoch)
redis.call('HSET', KEYS[1], ARGV[2], epoch)
redis.call('PUBLISH', ARGV[1], epoch .. ' ' .. ARGV[2])
return epoch`;

/** Renews a lease, or ends it (a life of 0), where it is still the holder's. */
const KEEP_LEASE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;

/**
 * Says that a replica lives, by Redis's clock. Gives how many have beaten within \`life\`; how many are remembered that have
 * not for \`silent\`, and since when the first of them has not (ms); and whether this one took the place of one that falls silent.
 */
const BEAT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function silent(since) return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - since, 'WITHSCORES') end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
local gone = ARGV[5] == '1' and silent(ARGV[3] / 5)[1]
if gone then redis.call('ZREM', KEYS[1], gone) end
local lost = silent(ARGV[3])
return { redis.call('ZCOUNT', KEYS[1], now - ARGV[2], '+inf'), #lost / 2, lost[2] and now - lost[2] or 0, gone and 1 or 0 }`;

/** Scripts by the name of the command that ioredis makes of each. */
export const SCRIPTS = {
  readEntry: { lua: READ_ENTRY, numberOfKeys: 1 },
  takeCall: { lua: TAKE_CALL, numberOfKeys: 1 },
  raiseEpoch: { lua: RAISE_EPOCH, numberOfKeys: 1 },
  keepLease: { lua: KEEP_LEASE, numberOfKeys: 1 },
  beat: { lua: BEAT, numberOfKeys: 1 },
};
