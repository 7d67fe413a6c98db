import type { Duration } from "../../clock.ts";
import type { SharedTexts } from "../coordination.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisObserver } from "./observer.ts";
import { defineScript } from "./scripts.ts";

/** Bytes of a text with its seal. */
const LONGEST = 1_100_000;

/** A large text is on its way for longer than what requests wait for. */
const TIMEOUT: Duration = 2_000;

/** KEYS: text. Returns it, '' for none, 1 for what is foreign, of which the size alone was read. */
const readText = defineScript(
  "text_read",
  "no-writes",
  `
local size = redis.pcall('STRLEN', KEYS[1])
if type(size) ~= 'number' or size > ${LONGEST} then return 1 end
return size == 0 and '' or redis.call('GET', KEYS[1])`,
);

/** KEYS: text. ARGV: the text, and for how long (ms). Only where there is room. */
const writeText = defineScript("text_write", "", "return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])");

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
    if (sealed.length > LONGEST) return;
    await this.connection.run({ script: writeText, keys: [key], args: [sealed, Math.floor(ttl)] }, TIMEOUT);
  }

  async read(name: string): Promise<string | undefined> {
    const key = this.connection.keys.text(name);
    const found = await this.connection.run({ script: readText, keys: [key], args: [] }, TIMEOUT);
    if (found === "") return undefined;
    const opened = typeof found === "string" ? this.connection.seals.open({ kind: "text", key }, found) : undefined;
    if (opened === undefined) this.observer.valueRejected("text", typeof found === "string" ? "seal" : "form");
    return opened?.text;
  }
}
