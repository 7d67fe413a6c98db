import type { Duration } from "../../clock.ts";
import { BASE } from "../epochs.ts";
import { MAX_VARIANTS } from "../entries.ts";
import { BOUNDED, defineScript, NOW, PLAIN } from "./scripts.ts";
import { VALUE_OF } from "./values.ts";

/** The field of an entry's hash that holds the epoch of its variants; theirs begin with {@link VARIANT}. */
const EPOCH = "g";
export const VARIANT = "v";
const LONGEST_FIELD = 64;

/** Redis's clock was set back when a value seems to come from the future by more than this. */
export const CLOCK_TOLERANCE: Duration = 1_000;

/** Bytes of an epoch with its seal, and some. */
const LONGEST_EPOCH = 256;

/**
 * All that a lookup needs, in one round trip. KEYS: entry, epochs, and the chain where there is one. ARGV: bytes of the
 * largest variant, bytes of all of them, then scopes, the base among them. Returns Redis's time (ms), the digest of the
 * chain, the epochs, and variants with their fields in turns: an empty one in the place of what is too large, of which
 * the size alone was read.
 */
export const readEntry = defineScript(
  "entry_read",
  "no-writes",
  `${NOW} ${VALUE_OF}
local chain = KEYS[3] and valueOf(KEYS[3])
if type(chain) ~= 'string' or chain == '' then chain = false end
local epochs = redis.pcall('HMGET', KEYS[2], unpack(ARGV, 3))
if epochs.err then epochs = {} end
for i, epoch in ipairs(epochs) do
  if epoch and #epoch > ${LONGEST_EPOCH} then epochs[i] = '' end
end
local count = redis.pcall('HLEN', KEYS[1])
-- A foreign value under this key is answered as one that cannot be read.
if type(count) ~= 'number' or count > ${MAX_VARIANTS + 1} then return { now, chain, epochs, { '${VARIANT}', '' } } end
local hash, left = {}, tonumber(ARGV[2])
local fields = count > 0 and redis.call('HKEYS', KEYS[1]) or {}
for _, field in ipairs(fields) do
  if string.sub(field, 1, 1) == '${VARIANT}' and #field <= ${LONGEST_FIELD} then
    local size = redis.call('HSTRLEN', KEYS[1], field)
    hash[#hash + 1] = field
    if size > tonumber(ARGV[1]) or size > left then hash[#hash + 1] = ''
    else
      hash[#hash + 1] = redis.call('HGET', KEYS[1], field)
      left = left - size
    end
  end
end
return { now, chain, epochs, hash }`,
);

/**
 * Stores one variant. KEYS: entry, epochs. ARGV: field, value, how long it is useful (ms), Redis's time when this was
 * sent (ms, at least), epoch, most variants, base, then scope and epoch ('' for none) in turns.
 *
 * Nothing is stored when a purge came first, nor what was sent later than now: this server's clock is not the one that the
 * sender knew. A command may lie in a frozen server for a while: that time counts.
 */
export const writeEntry = defineScript(
  "entry_write",
  "",
  `${NOW} ${PLAIN} ${BOUNDED}
if plain(bounded(KEYS[2], '${BASE}', ${LONGEST_EPOCH})) ~= ARGV[7] then return 0 end
for i = 8, #ARGV, 2 do
  if plain(bounded(KEYS[2], ARGV[i], ${LONGEST_EPOCH})) ~= ARGV[i + 1] then return 0 end
end
if tonumber(ARGV[4]) > now + ${CLOCK_TOLERANCE} then return 0 end
local late = math.max(0, now - tonumber(ARGV[4]))
local useful = math.floor(tonumber(ARGV[3]) - late)
if useful < 1 then return 0 end
if redis.pcall('HGET', KEYS[1], '${EPOCH}') ~= ARGV[5] or redis.call('HLEN', KEYS[1]) > tonumber(ARGV[6]) then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], '${EPOCH}', ARGV[5])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], math.max(useful, redis.call('PTTL', KEYS[1])))
return 1`,
);
