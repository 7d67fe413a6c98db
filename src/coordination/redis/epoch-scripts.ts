import { Script } from "./script.ts";
import { BASE, type Epoch, type EpochSet, MAX_COUNT } from "../epochs.ts";

/** How the scripts read an epoch, see `epochCount`: what is none is older than all. */
const COUNT = `
local function count(epoch)
  local number = tonumber(string.match(epoch, '^%d+')) or -1
  return number <= ${MAX_COUNT} and number or -1
end`;

/** What somebody else put under the key of the epochs is as good as none, and gives way to them. */
const CLEAR_FOREIGN = `
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end`;

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;

/** KEYS: epochs. Returns Redis's time (ms) and the hash. */
export const readEpochs = new Script(
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
 * lost a purge, or two parts of the fleet went on alone), so the scope gets one that is newer than both. Either way the
 * others are asked to look: they may know of purges that Redis and this process do not.
 */
export const mergeEpochs = new Script(
  "epochs_merge",
  "allow-oom",
  `${COUNT} ${NOW} ${CLEAR_FOREIGN}
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
export const raiseEpochs = new Script(
  "epochs_raise",
  "allow-oom",
  `${COUNT} ${NOW} ${CLEAR_FOREIGN}
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

/**
 * Notes an issued token. KEYS: chain. ARGV: digest, how long it is kept (ms), channel, tag, chain. Tells the others
 * when the digest is another than before.
 */
export const issueToken = new Script(
  "chain_issue",
  "allow-oom",
  `
local last = redis.pcall('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if type(last) == 'string' and last ~= ARGV[1] then
  redis.call('PUBLISH', ARGV[3], cjson.encode({ 'chain', ARGV[4], ARGV[5], ARGV[1] }))
end`,
);

/** What {@link readEpochs} and {@link mergeEpochs} return. */
export interface EpochsReply {
  readonly time: number;
  /** Undefined when Redis has none. */
  readonly epochs: EpochSet | undefined;
}

export function parseEpochsReply(reply: unknown): EpochsReply {
  const [time, flat] = reply as [number, string[]];
  const scopes = new Map<string, Epoch>();
  for (let i = 0; i + 1 < flat.length; i += 2) scopes.set(flat[i]!, flat[i + 1]!);
  const base = scopes.get(BASE);
  scopes.delete(BASE);
  return { time, epochs: base === undefined ? undefined : { base, scopes } };
}
