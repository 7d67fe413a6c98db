import type { Row, SharedRows } from "../coordination.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { defineScript, NOW_MICROSECONDS } from "./protocol.ts";
import type { OpenedText, SealedPlace } from "./seals.ts";

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

/** Seals rows anew that are as they were seen. KEYS: rows. ARGV: key, text seen and new text in turns. */
const sealRows = defineScript(
  "rows_seal",
  "allow-oom",
  `
for i = 1, #ARGV, 3 do
  if redis.pcall('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2]) end
end`,
);

/** A table in Redis, of whose rows the one with the higher version stays. */
export class RedisRows implements SharedRows {
  private readonly connection: RedisConnection;
  private readonly observer: Pick<RedisObserver, "valueRejected">;
  private state: string | undefined;
  /** The seal keys with which rows were last read: with others they are read again, and sealed anew. */
  private sealedBy: object | undefined;

  constructor(connection: RedisConnection, observer: Pick<RedisObserver, "valueRejected">) {
    this.connection = connection;
    this.observer = observer;
  }

  async exchange(rows: readonly Row[]): Promise<readonly Row[] | undefined> {
    const keys = [this.connection.keys.pins];
    const { version } = this.connection.seals;
    const known = rows.length > 0 || version !== this.sealedBy ? undefined : this.state;
    const args = [known ?? "-", ...rows.flatMap((row) => [row.key, row.version, this.seal(row)])];
    const reply = await this.connection.run({ script: exchangeRows, keys, args });
    const [state, flat] = reply as [string, string[] | undefined];
    this.state = state;
    this.sealedBy = version;
    return flat === undefined ? undefined : this.read(flat);
  }

  /** The connection is closed by whom it belongs to. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  private read(flat: readonly string[]): Row[] {
    const rows: Row[] = [];
    const outdated: string[] = [];
    for (let i = 0; i + 1 < flat.length && rows.length < MAX_ROWS; i += 2) {
      const [key, value] = [flat[i]!, flat[i + 1]!];
      if (key === STATE) continue;
      const [, version, text] = (value.length <= MAX_ROW && /^(\d{1,9}) (.*)$/s.exec(value)) || [];
      if (version === undefined) {
        this.observer.valueRejected("pin", "form");
        continue;
      }
      const opened = this.open(key, version, text!);
      if (opened === undefined) {
        this.observer.valueRejected("pin", "seal");
        continue;
      }
      const row = { key, version: Number(version), text: opened.text };
      rows.push(row);
      if (opened.isOutdated) outdated.push(key, value, `${version} ${this.seal(row)}`);
    }
    if (outdated.length > 0) {
      const call = { script: sealRows, keys: [this.connection.keys.pins], args: outdated };
      // Else a replica with the same keys does it, when it reads them.
      this.connection.run(call).catch(() => undefined);
    }
    return rows;
  }

  private placeOf(key: string): SealedPlace {
    return { kind: "pin", key: this.connection.keys.pins, field: key };
  }

  /** The text of a row with its seal before it, which is over its version as well. */
  private seal({ key, version, text }: Row): string {
    const seal = this.connection.seals.sealOf(this.placeOf(key), `${version} ${text}`);
    return seal === "" ? text : `${seal} ${text}`;
  }

  private open(key: string, version: string, sealed: string): OpenedText | undefined {
    const { seals } = this.connection;
    if (!seals.areOn) return { text: sealed, isOutdated: false };
    const end = Math.max(0, sealed.indexOf(" "));
    const text = sealed.slice(end + 1);
    const opened = seals.check(this.placeOf(key), `${version} ${text}`, sealed.slice(0, end));
    return opened && { text, isOutdated: opened.isOutdated };
  }
}
