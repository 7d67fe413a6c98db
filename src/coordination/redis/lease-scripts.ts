import { Script } from "./script.ts";

/** Begins what a released lease leaves behind: its outcome, for those who ask a moment later. */
export const RELEASED = "=";

/**
 * KEYS: lease. ARGV: token, how long it holds (ms), how long an outcome is kept (ms), how long "stored" goes before a
 * new lease (ms). Returns 1 when it is ours now.
 *
 * Who looked into the shared tier just before another stored there, and asks just after, is sent back to look again.
 */
export const takeLease = new Script(
  "lease_take",
  "allow-oom",
  `
local holder = redis.pcall('GET', KEYS[1])
-- Somebody else's value, which may stay for ever, is no lease.
if type(holder) == 'string' and redis.call('PTTL', KEYS[1]) > 0 then
  if string.sub(holder, 1, 1) ~= '${RELEASED}' then return 0 end
  local age = ARGV[3] - redis.call('PTTL', KEYS[1])
  if holder == '${RELEASED}stored' and age < tonumber(ARGV[4]) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`,
);

/** KEYS: lease. ARGV: token, how long it holds (ms). Returns 0 when it is no longer ours. */
export const renewLease = new Script(
  "lease_renew",
  "allow-oom",
  `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`,
);

/** KEYS: lease. ARGV: token, outcome, how long that is kept (ms), channel, name. */
export const releaseLease = new Script(
  "lease_release",
  "allow-oom",
  `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], '${RELEASED}' .. ARGV[2], 'PX', ARGV[3])
redis.call('PUBLISH', ARGV[4], cjson.encode({ 'lease', ARGV[5], ARGV[2] }))
return 1`,
);

/** KEYS: lease. Returns its token, its outcome after {@link RELEASED}, or nil. */
export const readLease = new Script("lease_read", "no-writes", "return redis.call('GET', KEYS[1])");
