import { MOST_WINDOWS, SLOTS_HOLD } from "../limits.ts";
import { SLOTS } from "../sliding-window.ts";
import { clearForeign, defineScript, NOW_MICROSECONDS } from "./scripts.ts";

/** Bytes of a value that are read; what is longer was not written by a gateway, and is taken for absent. */
const LONGEST = 16_384;

/** Lines of a limit that are kept: of the replica that asks, and of others that have other lengths. */
const MOST_LINES = 2 * MOST_WINDOWS;

/** Lua: the text under the first key, or '' where it is foreign. */
const READ_TEXT = `${clearForeign("string")}
local text = redis.call('STRLEN', KEYS[1]) <= ${LONGEST} and redis.call('GET', KEYS[1]) or ''`;

/**
 * Counts calls in the windows of a limit, and one more if all of them have room: as `SlidingWindow` does, by Redis's
 * clock. The value is its name (when it was made) and a line for each window: name, milliseconds, slot=calls….
 * What does not look so, is too old, or later than now by more than a window is not counted; what is later by less counts
 * from now on, for this clock may have stepped back.
 *
 * Windows of one name differ by their lengths, for a reload brought another one, or replicas have different ones. Every call
 * counts in all of them: earlier ones of the longest that is asked for in the lines of its name that are not. One that is not
 * there goes on with what is in the longest line of its name. The lines that were asked for longest ago are left out, beyond
 * {@link MOST_LINES}.
 *
 * KEYS: limit. ARGV: the name that the value has to have ('': any), a channel and a message to say that a call is beyond
 * the replica's share, 1 to say so even when no call is granted; then for each window: name, milliseconds, calls allowed,
 * 1 where the new call is to count, how many pairs follow, pairs of age (ms) and number of earlier calls.
 * Returns -1 and the name, having done nothing, where the value has another name; else whether the call was granted (1),
 * the name, and for each window the calls in it and in how many milliseconds it may have room (0: it has).
 */
export const takeCalls = defineScript(
  "limit_take",
  "allow-oom",
  `${NOW_MICROSECONDS} ${READ_TEXT}
local born = string.match(text, '^(%d+)\\n')
if born and #born > 20 then born, text = nil, '' end
if ARGV[1] ~= '' and ARGV[1] ~= born then return { -1, born or '' } end
local windows, before, asked, longest = {}, {}, {}, 0
local function open(key, name, per)
  local window = { key = key, name = name, length = per / ${SLOTS}, slots = {}, used = 0 }
  window.now = math.floor(now / window.length)
  windows[key] = window
  longest = math.max(longest, per)
  return window
end
local function longestOf(list, name)
  local found
  for _, each in ipairs(list) do
    if each.name == name and each.length > (found and found.length or 0) then found = each end
  end
  return found
end
local function count(window, slot, calls)
  if slot < window.now - ${SLOTS} or slot > window.now + ${SLOTS} or calls > 1e9 then return end
  slot = math.min(slot, window.now)
  window.slots[slot] = (window.slots[slot] or 0) + calls
  window.used = window.used + calls
end
local function takeOver(window)
  local other = longestOf(before, window.name)
  for slot, calls in string.gmatch(other and other.line or '', '(%d+)=(%d+)') do
    count(window, math.floor((slot + 1) * other.length / window.length), tonumber(calls))
  end
  return window
end
local function report(window, from)
  for j = from.first, from.last, 2 do
    count(window, math.floor((now - ARGV[j]) / window.length), tonumber(ARGV[j + 1]))
  end
end
for key, name, per, line in string.gmatch(text, '((%a+) (%d+))([^\\n]*)\\n') do
  per = tonumber(per)
  if per > 0 and per < 1e8 and not windows[key] then
    local window = open(key, name, per)
    window.line = line
    table.insert(before, window)
    for slot, calls in string.gmatch(line, '(%d+)=(%d+)') do count(window, tonumber(slot), tonumber(calls)) end
  end
end
local granted, wanting, reply, i = 1, {}, { 1, born or string.format('%.0f', now * 1000) }, 5
while ARGV[i] do
  local per, requests, wants, earlier = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3] == '1', tonumber(ARGV[i + 4])
  local key = ARGV[i] .. ' ' .. ARGV[i + 1]
  local window = windows[key] or takeOver(open(key, ARGV[i], per))
  window.first, window.last = i + 5, i + 3 + 2 * earlier
  report(window, window)
  table.insert(asked, window)
  local excess, wait = wants and window.used + 1 - requests or 0, 0
  if excess > 0 then
    granted, wait = 0, per
    for slot = window.now - ${SLOTS}, window.now do
      excess = excess - (window.slots[slot] or 0)
      if excess <= 0 then wait = (slot + ${SLOTS + 1}) * window.length - now break end
    end
  end
  if wants then wanting[window.name] = true end
  table.insert(reply, window)
  table.insert(reply, math.ceil(wait))
  i = i + 5 + 2 * earlier
end
reply[1] = granted
local kept = { unpack(asked) }
for _, window in ipairs(before) do
  if not window.first and #kept < ${MOST_LINES} then
    local source = longestOf(asked, window.name)
    if source then report(window, source) end
    table.insert(kept, window)
  end
end
local lines = { reply[2] }
for _, window in ipairs(kept) do
  if granted == 1 and wanting[window.name] then count(window, window.now, 1) end
  local line = { window.key }
  for slot, calls in pairs(window.slots) do table.insert(line, string.format('%.0f=%.0f', slot, calls)) end
  if #line > 1 then table.insert(lines, table.concat(line, ' ')) end
end
redis.call('SET', KEYS[1], table.concat(lines, '\\n') .. '\\n', 'PX', math.ceil(longest * 1.1) + 1000)
if ARGV[3] ~= '' and (granted == 1 or ARGV[4] == '1') then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
for k = 3, #reply, 2 do reply[k] = reply[k].used end
return reply`,
);

/**
 * Claims slots for the requests of one client that are in flight at a replica. KEYS: slots of the client. ARGV: replica,
 * in flight, wanted, allowed everywhere. Returns how many it holds, in flight or not, for {@link SLOTS_HOLD}.
 */
export const holdSlots = defineScript(
  "limit_hold",
  "allow-oom",
  `${NOW_MICROSECONDS} ${READ_TEXT}
local others, holders = 0, {}
for id, held, til in string.gmatch(text, '([%w_-]+)=(%d+)@(%d+)') do
  held, til = tonumber(held), tonumber(til)
  if id ~= ARGV[1] and til > now and til <= now + ${SLOTS_HOLD + 1} then
    others = others + held
    table.insert(holders, string.format('%s=%.0f@%.0f', id, held, til))
  end
end
local held = math.max(0, tonumber(ARGV[2]), math.min(tonumber(ARGV[3]), ARGV[4] - others))
if held > 0 then table.insert(holders, string.format('%s=%.0f@%.0f', ARGV[1], held, math.ceil(now + ${SLOTS_HOLD}))) end
if #holders > 0 then redis.call('SET', KEYS[1], table.concat(holders, ','), 'PX', ${SLOTS_HOLD})
elseif text ~= '' then redis.call('DEL', KEYS[1]) end
return held`,
);
