import { BOUNDED, clearForeign, defineScript, NOW } from "./scripts.ts";

/** Rows of one table; a hash with more is foreign. */
const MOST_ROWS = 4_096;

/** Bytes of one row with its name. A longer one is foreign. */
const LONGEST_ROW = 256 * 1024;

/** Bytes of all rows of one table; a table with more is foreign, and the first that writes begins it anew. */
const LARGEST_TABLE = 4 * 1024 * 1024;

/** Bytes that one command brings, about: tables that do not fit come with the next one. */
const LARGEST_REPLY = 2 * LARGEST_TABLE;

/** The field with the version of a table, where it has one: Redis's time of the last change (ms). */
export const VERSION = "=version";

/** Names that one command of Lua takes. */
const NAMES_AT_ONCE = 1_000;

/**
 * Lua for `look(key)`: the names of a table's rows within the bounds, those beyond them (`true`: the whole table is
 * foreign), and the bytes. Sizes alone are read: a value that nobody of ours wrote costs no more than its name.
 */
const LOOK = `
local function look(key)
  local count = redis.pcall('HLEN', key)
  if type(count) ~= 'number' or count > ${MOST_ROWS} then return {}, true, 0 end
  local names, foreign, bytes = {}, {}, 0
  if count == 0 then return names, foreign, bytes end
  for _, name in ipairs(redis.call('HKEYS', key)) do
    local size = #name + redis.call('HSTRLEN', key, name)
    if size > ${LONGEST_ROW} then foreign[#foreign + 1] = name
    else
      names[#names + 1] = name
      bytes = bytes + size
    end
  end
  if bytes > ${LARGEST_TABLE} then return {}, true, 0 end
  return names, foreign, bytes
end
local function rows(key, names)
  local found = {}
  for first = 1, #names, ${NAMES_AT_ONCE} do
    local last = math.min(#names, first + ${NAMES_AT_ONCE - 1})
    for i, text in ipairs(redis.call('HMGET', key, unpack(names, first, last))) do
      found[#found + 1] = names[first + i - 1]
      found[#found + 1] = text
    end
  end
  return found
end
local function strangers(foreign) return foreign == true and -1 or #foreign end`;

/**
 * Reads tables. KEYS: tables. ARGV: the version of each that is known ('' for none). Returns Redis's time (ms), then for
 * each table that fits: its version, how many rows are foreign (-1: all), and its rows in turns (nil: as they are known).
 */
export const readTables = defineScript(
  "table_read",
  "no-writes",
  `${NOW} ${BOUNDED} ${LOOK}
local found, total = { now }, 0
for i, key in ipairs(KEYS) do
  local version = bounded(key, '${VERSION}', 64)
  if version ~= '' and version == ARGV[i] then found[#found + 1] = { version, 0, false }
  else
    local names, foreign, bytes = look(key)
    if i > 1 and total + bytes > ${LARGEST_REPLY} then return found end
    total = total + bytes
    found[#found + 1] = { version, strangers(foreign), rows(key, names) }
  end
end
return found`,
);

/**
 * The one compare-and-set of tables: writes rows where Redis has what this process saw there, and notifies the others.
 * What is foreign goes. KEYS: table. ARGV: channel, whether all other rows go ("1"), whether the table has a version
 * ("1"), the version that was seen, how many messages there are, the messages, then name, text seen ('' for none) and new text ('' removes) in
 * turns. Returns Redis's time (ms), whether it was written (1), and the table as {@link readTables} does: where it was
 * written, the version alone, and no version where another replica wrote other rows meanwhile.
 */
export const writeTable = defineScript(
  "table_write",
  "allow-oom",
  `${NOW} ${BOUNDED} ${clearForeign("hash")} ${LOOK}
local key = KEYS[1]
local names, foreign = look(key)
if foreign == true then redis.call('DEL', key)
else
  for _, name in ipairs(foreign) do redis.call('HDEL', key, name) end
end
local first = 6 + tonumber(ARGV[5])
for i = first, #ARGV, 3 do
  if bounded(key, ARGV[i], ${LONGEST_ROW}) ~= ARGV[i + 1] then
    return { now, 0, bounded(key, '${VERSION}', 64), strangers(foreign), rows(key, names) }
  end
end
local before = bounded(key, '${VERSION}', 64)
if ARGV[2] == '1' then redis.call('DEL', key) end
for i = first, #ARGV, 3 do
  if ARGV[i + 2] == '' then redis.call('HDEL', key, ARGV[i])
  else redis.call('HSET', key, ARGV[i], ARGV[i + 2]) end
end
local version = ''
if ARGV[3] == '1' then
  version = string.format('%.3f', time[1] * 1000 + time[2] / 1000)
  if version == before then version = version .. '1' end
  redis.call('HSET', key, '${VERSION}', version)
end
for i = 6, first - 1 do redis.call('PUBLISH', ARGV[1], ARGV[i]) end
return { now, 1, before == ARGV[4] and version or '', 0, false }`,
);
