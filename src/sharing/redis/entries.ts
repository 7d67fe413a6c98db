import type { SharedEntries, SharedEntry, SharedKey } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";

const LINE_END = 10;

/** Entries in Redis: head, line end, bytes of the body. Redis forgets an entry when it may be used for nothing any more. */
export class RedisEntries implements SharedEntries {
  private readonly connection: RedisConnection;
  private readonly keys: Keys;

  constructor(connection: RedisConnection, keys: Keys) {
    this.connection = connection;
    this.keys = keys;
  }

  async get(key: SharedKey): Promise<SharedEntry | undefined> {
    const answer = await this.connection.ask("get", (redis) => redis.readEntryBuffer(this.keys.entry(key)));
    if (answer === undefined || answer === null) return undefined;
    const [value, remaining] = answer;
    const end = value.indexOf(LINE_END);
    if (end === -1 || remaining <= 0) return undefined;
    return { head: value.toString("utf8", 0, end), body: copyOf(value.subarray(end + 1)), remaining };
  }

  set(key: SharedKey, { head, body, remaining }: SharedEntry): void {
    const life = Math.ceil(remaining);
    if (life <= 0) return;
    const value = Buffer.concat([Buffer.from(`${head}\n`), body]);
    this.connection.tell("set", value.length, (redis) => redis.set(this.keys.entry(key), value, "PX", life));
  }

  delete(key: SharedKey): void {
    this.connection.tell("delete", 0, (redis) => redis.del(this.keys.entry(key)));
  }
}

/** Copies bytes: those of Redis' answer may be a part of a larger block, which would be kept with them. */
function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}
