import type { Duration } from "../../clock.ts";
import type { SharedTexts } from "../coordination.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisObserver } from "./observer.ts";
import { readingOf, writingOf } from "./values.ts";

/** Bytes of a text with its seal. */
const LONGEST = 1_100_000;

/** A large text is on its way for longer than what requests wait for. */
const TIMEOUT: Duration = 2_000;

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
    await this.connection.run(writingOf(this.connection, { key, text: sealed, ttl: Math.floor(ttl) }, false), TIMEOUT);
  }

  async read(name: string): Promise<string | undefined> {
    const key = this.connection.keys.text(name);
    const found = await this.connection.run(readingOf(key, LONGEST), TIMEOUT);
    if (found === "") return undefined;
    const opened = typeof found === "string" ? this.connection.seals.open({ kind: "text", key }, found) : undefined;
    if (opened === undefined) this.observer.valueRejected("text", typeof found === "string" ? "seal" : "form");
    return opened?.text;
  }
}
