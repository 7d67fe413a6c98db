import type { Clock, Instant } from "../../clock.ts";
import {
  type SharedLimits,
  type SharingPhase,
  type SlotClaim,
  SLOTS_HOLD,
  type TokenClaim,
  type TokenGrant,
} from "../shared-limits.ts";
import type { RedisConnection } from "./connection.ts";
import { CHANGING_OVER, type Replicas } from "./replicas.ts";
import { defineScript } from "./protocol.ts";
import type { SharedEpochs } from "./shared-epochs.ts";

/** Lua for `now`: Redis's time in microseconds. */
const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]`;

/** Bytes of a value: of so many replicas as there will never be. */
const LONGEST = 65_536;

/**
 * Takes tokens out of a client's buckets (see TokenTable, which does the same in one process). KEYS: buckets. ARGV: how
 * many, then of each burst, interval (µs), tokens spent already, tokens known to be missing; then how many requests want
 * a token of the first bucket, of the first two … Returns for each bucket how many got them, then for each what is missing.
 *
 * The value is when it was written (µs), then what was missing of each bucket then. It lives until all are full. A clock
 * set back puts nothing back for a while, and takes nothing either. A value of another kind counts as none.
 */
const takeTokens = defineScript(
  "tokens_take",
  "allow-oom",
  `${NOW}
local count = tonumber(ARGV[1])
local value = redis.pcall('GET', KEYS[1])
local known = {}
if type(value) == 'string' and #value <= ${LONGEST} then
  for number in string.gmatch(value, '%S+') do
    local count = tonumber(number) or 0
    -- What is no number, negative or beyond counting would stay so.
    known[#known + 1] = count >= 0 and count <= 2 ^ 53 and count or 0
  end
end
local elapsed = math.max(0, now - (known[1] or now))
local burst, interval, missing, granted = {}, {}, {}, {}
for i = 1, count do
  local at = 4 * i - 2
  burst[i], interval[i] = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local left = math.max(0, (known[i + 1] or 0) - elapsed / interval[i])
  missing[i] = math.min(math.max(left, tonumber(ARGV[at + 3])) + tonumber(ARGV[at + 2]), 2 * burst[i])
end
for last = count, 1, -1 do
  local take = tonumber(ARGV[4 * count + 1 + last])
  for i = 1, last do take = math.min(take, math.max(0, math.floor(burst[i] - missing[i] + 1e-6))) end
  for i = 1, last do missing[i] = missing[i] + take end
  granted[last] = take
end
local full, text, reply = 0, { string.format('%.0f', now) }, {}
for i = 1, count do
  full = math.max(full, missing[i] * interval[i])
  text[i + 1] = string.format('%.17g', missing[i])
  reply[i], reply[count + i] = granted[i], text[i + 1]
end
if full > 0 then
  redis.call('SET', KEYS[1], table.concat(text, ' '), 'PX', string.format('%.0f', math.ceil(full / 1000)))
else
  redis.call('DEL', KEYS[1])
end
return reply`,
);

/**
 * Holds slots for requests of one client that run at once. KEYS: slots. ARGV: replica, running, wanted, max, how long
 * they are held (µs). Returns how many are held. The value is a list of replica=held@until.
 */
const holdSlots = defineScript(
  "slots_hold",
  "allow-oom",
  `${NOW}
local running, wanted, max, hold = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local value = redis.pcall('GET', KEYS[1])
local others, list = 0, {}
if type(value) == 'string' and #value <= ${LONGEST} then
  for id, held, till in string.gmatch(value, '([%w_-]+)=(%d+)@(%d+)') do
    -- One that is held for too long was written by a clock that was set back.
    local left = tonumber(till) - now
    if id ~= ARGV[1] and left > 0 and left <= hold then
      others = others + tonumber(held)
      list[#list + 1] = id .. '=' .. held .. '@' .. till
    end
  end
end
local held = math.max(running, math.min(wanted, max - others))
if held > 0 then list[#list + 1] = string.format('%s=%d@%.0f', ARGV[1], held, now + hold) end
if #list > 0 then
  redis.call('SET', KEYS[1], table.concat(list, ','), 'PX', string.format('%.0f', math.ceil(hold / 1000)))
else
  redis.call('DEL', KEYS[1])
end
return math.max(0, held)`,
);

export interface RedisClientLimitsOptions {
  connection: RedisConnection;
  epochs: SharedEpochs;
  replicas: Replicas;
  clock: Clock;
}

/** Limits of clients counted in Redis; while it is away each replica has its share of them. */
export class RedisClientLimits implements SharedLimits {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly replicas: Replicas;
  private readonly clock: Clock;
  private report: () => void = () => undefined;
  /** Something may have been granted without Redis: it was there before, or a share was asked for. */
  private hasShared = false;
  private returningUntil: Instant = -Infinity;

  constructor({ connection, epochs, replicas, clock }: RedisClientLimitsOptions) {
    this.connection = connection;
    this.epochs = epochs;
    this.replicas = replicas;
    this.clock = clock;
  }

  get phase(): SharingPhase {
    if (!this.epochs.isUsableElsewhere) return "away";
    return this.clock.now() < this.returningUntil ? "returning" : "counted";
  }

  get processes(): number {
    return this.replicas.likelyCount;
  }

  shareOf(whole: number): number {
    this.hasShared = true;
    return this.replicas.shareOf(whole);
  }

  async takeTokens(name: string, { buckets, wanted }: TokenClaim): Promise<TokenGrant | undefined> {
    const args = [
      buckets.length,
      ...buckets.flatMap(({ burst, interval, spent, missing }) => [burst, interval * 1_000, spent, missing]),
      ...wanted,
    ];
    const call = { script: takeTokens, keys: [this.connection.keys.tokens(name)], args };
    try {
      const reply = ((await this.epochs.askElsewhere(call)) as unknown[]).map(Number);
      return { granted: reply.slice(0, buckets.length), missing: reply.slice(buckets.length) };
    } catch {
      return undefined;
    }
  }

  async holdSlots(name: string, { running, wanted, max }: SlotClaim): Promise<number | undefined> {
    const args = [this.replicas.id, running, wanted, max, SLOTS_HOLD * 1_000];
    const call = { script: holdSlots, keys: [this.connection.keys.slots(name)], args };
    try {
      return Number(await this.epochs.askElsewhere(call));
    } catch {
      return undefined;
    }
  }

  onReturned(report: () => void): void {
    this.report = report;
  }

  /** Redis is there. */
  regained(): void {
    if (this.hasShared) this.returningUntil = this.clock.now() + CHANGING_OVER;
    this.hasShared = true;
    this.report();
  }
}
