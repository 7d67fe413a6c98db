import type { Row, SharedRows } from "../coordination.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { defineScript, NOW_MICROSECONDS } from "./protocol.ts";

/** Rows and bytes of one row that are taken from Redis: what is beyond was not written by a gateway. */
const MAX_ROWS = 4_000;
const MAX_ROW = 256 * 1024;

/** The field with the state of the table; rows have digests for names. */
const STATE = "state";

/**
 * Writes rows that are newer than what is there. KEYS: rows. ARGV: the state that is known already, then of each row: key,
 * version, text. Returns the state, and all rows as `key, "version text", …` where it is another one than is known.
 *
 * The state is the time of the last change, so that a Redis that comes back empty has another one.
 */
const exchangeRows = defineScript(
  "rows_exchange",
  "allow-oom",
  `
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end
local changed = false
for i = 2, #ARGV, 3 do
  local held = redis.call('HGET', KEYS[1], ARGV[i])
  local last = held and tonumber(string.match(held, '^(%d+) ')) or 0
  if tonumber(ARGV[i + 1]) > last then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1] .. ' ' .. ARGV[i + 2])
    changed = true
  end
end
if changed then
  ${NOW_MICROSECONDS}
  redis.call('HSET', KEYS[1], '${STATE}', string.format('%.3f', now))
end
local state = redis.call('HGET', KEYS[1], '${STATE}') or ''
if state == ARGV[1] then return { state } end
return { state, redis.call('HGETALL', KEYS[1]) }`,
);

/** A table in Redis, of whose rows the one with the higher version stays. */
export class RedisRows implements SharedRows {
  private readonly connection: RedisConnection;
  private readonly observer: Pick<RedisObserver, "valueRejected">;
  private state: string | undefined;

  constructor(connection: RedisConnection, observer: Pick<RedisObserver, "valueRejected">) {
    this.connection = connection;
    this.observer = observer;
  }

  async exchange(rows: readonly Row[]): Promise<readonly Row[] | undefined> {
    const keys = [this.connection.keys.pins];
    const known = rows.length > 0 ? undefined : this.state;
    const args = [known ?? "-", ...rows.flatMap(({ key, version, text }) => [key, version, text])];
    const reply = await this.connection.run({ script: exchangeRows, keys, args });
    const [state, flat] = reply as [string, string[] | undefined];
    this.state = state;
    return flat === undefined ? undefined : this.read(flat);
  }

  /** The connection is closed by whom it belongs to. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  private read(flat: readonly string[]): Row[] {
    const rows: Row[] = [];
    for (let i = 0; i + 1 < flat.length && rows.length < MAX_ROWS; i += 2) {
      const [key, value] = [flat[i]!, flat[i + 1]!];
      if (key === STATE) continue;
      const [, version, text] = (value.length <= MAX_ROW && /^(\d{1,9}) (.*)$/s.exec(value)) || [];
      if (version === undefined) this.observer.valueRejected("pin");
      else rows.push({ key, version: Number(version), text: text! });
    }
    return rows;
  }
}
