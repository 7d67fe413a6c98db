import { Script } from "./script.ts";

/** Redis's time in milliseconds with microseconds behind the point. */
const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000`;

/**
 * Takes one call out of a budget, exact in any window. KEYS: budget. ARGV: requests, per (ms), a name for the call;
 * where it is beyond the replica's share, the channel to say so on, the budget's name there, and the replica. Returns 1
 * and the calls left, or 0 and the milliseconds until one may become free.
 */
export const takeCall = new Script(
  "call_take",
  "allow-oom",
  `${NOW}
local requests, per = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.3f', now - per))
-- Left behind by a clock that was set back; they would count for longer than their window.
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.3f', now + per), '+inf')
local taken = redis.call('ZCARD', KEYS[1])
if taken < requests then
  redis.call('ZADD', KEYS[1], string.format('%.3f', now), ARGV[3])
  redis.call('PEXPIRE', KEYS[1], math.ceil(per) + 1000)
  if ARGV[4] then redis.call('PUBLISH', ARGV[4], cjson.encode({ 'borrowed', ARGV[5], ARGV[6], per })) end
  return { 1, requests - taken - 1 }
end
if requests < 1 then return { 0, math.ceil(per) } end
local blocking = redis.call('ZRANGE', KEYS[1], taken - requests, taken - requests, 'WITHSCORES')
return { 0, math.max(1, math.ceil(blocking[2] + per - now)) }`,
);

/** Notes calls made earlier. KEYS: budget. ARGV: per (ms), then age (ms) and name of each call in turns. */
export const reportCalls = new Script(
  "calls_report",
  "allow-oom",
  `${NOW}
for i = 2, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], 'NX', string.format('%.3f', now - tonumber(ARGV[i])), ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[1], math.ceil(tonumber(ARGV[1])) + 1000)`,
);

/** Says that a replica lives. KEYS: replicas. ARGV: id, how long a silent one counts (ms). Returns the ids of all. */
export const beat = new Script(
  "replica_beat",
  "allow-oom",
  `${NOW}
redis.call('ZADD', KEYS[1], string.format('%.3f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.3f', now - ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
return redis.call('ZRANGE', KEYS[1], 0, -1)`,
);

/** Says that a replica is gone. KEYS: replicas. ARGV: id. */
export const leave = new Script("replica_leave", "allow-oom", `return redis.call('ZREM', KEYS[1], ARGV[1])`);
