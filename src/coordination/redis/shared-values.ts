import type { Duration, Instant } from "../../clock.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { defineScript, NOW_MICROSECONDS, type RedisValue } from "./protocol.ts";
import type { SharedEpochs } from "./shared-epochs.ts";

/** Bytes of a value: of so many replicas as there will never be. */
const LONGEST = 65_536;

/** So often others may have written between reading and writing, before a change is given up. */
const MOST_TRIES = 16;

/**
 * Writes a value where it still is what was read, and reads it where it is not. KEYS: value. ARGV: as it was read, as it
 * is to be ('' removes it), for how long (ms); none to read alone. Returns 1 when it was written, else Redis's time (ms),
 * the value, and whether something is there that is none: of another kind, too long, or not in plain ASCII.
 */
const changeValue = defineScript(
  "value_change",
  "allow-oom",
  `${NOW_MICROSECONDS}
local value = redis.pcall('GET', KEYS[1])
local isForeign = type(value) == 'table' or value and (#value > ${LONGEST} or string.find(value, '[^ -~]'))
if not value or isForeign then value = '' end
if ARGV[1] ~= value then return { string.format('%.3f', now), value, isForeign and 1 or 0 } end
if ARGV[2] == '' then redis.call('DEL', KEYS[1])
else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1`,
);

/** What a value becomes: its text and how long it lives; undefined removes it. */
export type NextValue = { readonly text: string; readonly ttl: Duration } | undefined;

/** What was decided on a value. */
export interface Decision<Result> {
  readonly result: Result;
  /** Not there where the value stays as it is. */
  readonly write?: { readonly next: NextValue };
}

export interface SharedValuesOptions {
  readonly connection: RedisConnection;
  readonly epochs: SharedEpochs;
  readonly observer: Pick<RedisObserver, "valueRejected">;
}

/**
 * Values in Redis that replicas change in turns: each is read, decided on here, and written where no other replica wrote
 * in between. So what replicas count together can be sealed, which Redis itself could not do.
 */
export class SharedValues {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly observer: Pick<RedisObserver, "valueRejected">;

  constructor({ connection, epochs, observer }: SharedValuesOptions) {
    this.connection = connection;
    this.epochs = epochs;
    this.observer = observer;
  }

  /**
   * @param decide what to do with the text that is there; called again when another replica changed it meanwhile. `now`
   *   is Redis's time in milliseconds
   * @returns what was decided; undefined where Redis is away, or others wrote each time
   */
  async change<Result>(
    place: { readonly kind: RedisValue; readonly key: string },
    decide: (text: string | undefined, now: Instant) => Decision<Result>,
  ): Promise<Result | undefined> {
    let args: (string | number)[] = [];
    let decided: Result | undefined;
    for (let tries = 0; tries <= MOST_TRIES; tries += 1) {
      const reply = await this.ask(place.key, args);
      if (reply === undefined) return undefined;
      if (reply === 1) return decided;
      const [time, value, isForeign] = reply;
      if (isForeign === 1) this.observer.valueRejected(place.kind, "form");
      const { result, write } = decide(value === "" ? undefined : this.open(place, value), Number(time));
      if (write === undefined) return result;
      decided = result;
      const { next } = write;
      const ttl = next === undefined ? 0 : Math.max(1, Math.ceil(next.ttl));
      args = [value, next === undefined ? "" : this.connection.seals.seal(place, next.text), ttl];
    }
    return undefined;
  }

  private async ask(
    key: string,
    args: readonly (string | number)[],
  ): Promise<1 | [string, string, number] | undefined> {
    const call = { script: changeValue, keys: [key], args };
    return (await this.epochs.askElsewhere(call).catch(() => undefined)) as 1 | [string, string, number] | undefined;
  }

  private open(place: { readonly kind: RedisValue; readonly key: string }, value: string): string | undefined {
    const opened = this.connection.seals.open(place, value);
    if (opened === undefined) this.observer.valueRejected(place.kind, "seal");
    return opened?.text;
  }
}
