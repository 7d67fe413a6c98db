import type { Duration } from "../../clock.ts";
import type { SharedTexts } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisObserver } from "./observer.ts";
import { defineScript, PLAIN, type ScriptCall } from "./scripts.ts";

/** Bytes of a value: party ids, tokens and digests with their seals are shorter. What is longer is foreign. */
const LONGEST_VALUE = 1_100;

/** Bytes of a text with its seal. */
const LONGEST_TEXT = 1_100_000;

/** A large text is on its way for longer than what requests wait for. */
const TEXT_TIMEOUT: Duration = 2_000;

/** Lua for `valueOf(key, most)`: a value, '' for none, 1 for what is foreign, of which the size alone was read. */
export const VALUE_OF = `
local function valueOf(key, most)
  local size = redis.pcall('STRLEN', key)
  if type(size) ~= 'number' or size > (most or ${LONGEST_VALUE}) then return 1 end
  return size == 0 and '' or redis.call('GET', key)
end`;

/** KEYS: value. ARGV: bytes that it may have. Returns what {@link VALUE_OF} does. */
const readValue = defineScript("value_read", "no-writes", `${VALUE_OF} return valueOf(KEYS[1], tonumber(ARGV[1]))`);

/** @param most bytes; what is longer is foreign */
export function readingOf(key: string, most = LONGEST_VALUE): ScriptCall {
  return { script: readValue, keys: [key], args: [most] };
}

/**
 * The compare-and-set of single values. KEYS: value. ARGV: what has to be there ('*': anything), what is to be there, for
 * how long (ms), and channel and message where others are to know. Returns 1 when it was written. A value that said the
 * same before, or was not there, is no change.
 */
const COMPARE_AND_SET = `${VALUE_OF} ${PLAIN}
local last = valueOf(KEYS[1])
if ARGV[1] ~= '*' and last ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if ARGV[5] and type(last) == 'string' and last ~= '' and plain(last) ~= plain(ARGV[2]) then
  redis.call('PUBLISH', ARGV[4], ARGV[5])
end
return 1`;

/** Also in a full Redis: where it holds off fetches, or ends what must not be used. */
const writeAlways = defineScript("value_write", "allow-oom", COMPARE_AND_SET);
const writeIfRoom = defineScript("value_store", "", COMPARE_AND_SET);

/** A value that is to be written. */
export interface ValueWrite {
  readonly key: string;
  /** What has to be there; undefined: anything. */
  readonly expected?: string;
  readonly text: string;
  /** Milliseconds. */
  readonly ttl: number;
  /** For the others, where the value is another one than before. */
  readonly message?: string;
}

/** @param isWorthOverfill it is also written in a full Redis */
export function writingOf({ keys }: RedisConnection, write: ValueWrite, isWorthOverfill = true): ScriptCall {
  const { key, expected = "*", text, ttl, message } = write;
  const notice = message === undefined ? [] : [keys.channel, message];
  const script = isWorthOverfill ? writeAlways : writeIfRoom;
  return { script, keys: [key], args: [expected, text, ttl, ...notice] };
}

/** Larger texts that replicas keep for each other, each under a name that stands for its contents. */
export class Texts implements SharedTexts {
  private readonly connection: RedisConnection;
  private readonly observer: Pick<RedisObserver, "valueRejected">;

  constructor(connection: RedisConnection, observer: Pick<RedisObserver, "valueRejected">) {
    this.connection = connection;
    this.observer = observer;
  }

  async write(name: string, text: string, ttl: Duration): Promise<void> {
    const key = this.connection.keys.text(name);
    const sealed = this.connection.seals.seal({ kind: "text", key }, text);
    if (sealed.length > LONGEST_TEXT) return;
    await this.connection.run(
      writingOf(this.connection, { key, text: sealed, ttl: Math.floor(ttl) }, false),
      TEXT_TIMEOUT,
    );
  }

  async read(name: string): Promise<string | undefined> {
    const key = this.connection.keys.text(name);
    const found = await this.connection.run(readingOf(key, LONGEST_TEXT), TEXT_TIMEOUT);
    if (found === "") return undefined;
    const opened = typeof found === "string" ? this.connection.seals.open({ kind: "text", key }, found) : undefined;
    if (opened === undefined) this.observer.valueRejected("text", typeof found === "string" ? "seal" : "form");
    return opened?.text;
  }
}
