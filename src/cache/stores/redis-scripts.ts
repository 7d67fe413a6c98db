import { Script } from "../../coordination/redis/script.ts";
import { BASE } from "../../coordination/epochs.ts";

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;

/** The field of an entry's hash that holds the epoch of its variants; theirs begin with {@link VARIANT}. */
export const EPOCH = "g";
export const VARIANT = "v";

/** Digits of the instant (Redis's clock, ms) that a stored variant begins with, twice: no checksum covers it. */
export const STAMP_LENGTH = 13;

/**
 * All that a lookup needs, in one round trip. KEYS: entry, epochs, and the chain where there is one. ARGV: scopes, the
 * base among them. Returns Redis's time (ms), the digest of the chain, the epochs, and the hash of variants.
 */
export const readEntry = new Script(
  "entry_read",
  "no-writes",
  `${NOW}
local chain = KEYS[3] and redis.pcall('GET', KEYS[3])
local epochs = redis.pcall('HMGET', KEYS[2], unpack(ARGV))
local hash = redis.pcall('HGETALL', KEYS[1])
-- Somebody else's value under our key is answered as one that cannot be read, or as none.
if type(chain) ~= 'string' then chain = false end
if epochs.err then epochs = {} end
if hash.err then hash = { '${VARIANT}', '' } end
return { now, chain, epochs, hash }`,
);

/**
 * Stores one variant. KEYS: entry, epochs. ARGV: field, value, how long it is useful (ms), Redis's time when this was
 * sent (ms, at least), epoch, most variants, base, then scope and epoch ('' for none) in turns.
 *
 * Nothing is stored when a purge came first. A command may lie in a frozen server for a while: that time counts.
 */
export const writeEntry = new Script(
  "entry_write",
  "",
  `${NOW}
if redis.call('HGET', KEYS[2], '${BASE}') ~= ARGV[7] then return 0 end
for i = 8, #ARGV, 2 do
  if (redis.call('HGET', KEYS[2], ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
end
local late = math.max(0, now - tonumber(ARGV[4]))
local useful = math.floor(tonumber(ARGV[3]) - late)
if useful < 1 then return 0 end
if redis.pcall('HGET', KEYS[1], '${EPOCH}') ~= ARGV[5] or redis.call('HLEN', KEYS[1]) > tonumber(ARGV[6]) then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], '${EPOCH}', ARGV[5])
end
redis.call('HSET', KEYS[1], ARGV[1], string.rep(string.format('%0${STAMP_LENGTH}d', now - late), 2) .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], math.max(useful, redis.call('PTTL', KEYS[1])))
return 1`,
);

/** KEYS: entry. */
export const removeEntry = new Script("entry_remove", "allow-oom", "return redis.call('UNLINK', KEYS[1])");
