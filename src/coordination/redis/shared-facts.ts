import type { Clock, Duration } from "../../clock.ts";
import type { MaybePromise } from "../coordinator.ts";
import { Facts } from "../local.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { defineScript } from "./protocol.ts";
import type { SharedEpochs } from "./shared-epochs.ts";

/** Characters; a party id is shorter. */
const LONGEST = 1_024;

const writeFact = defineScript("fact_write", "", "return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])");
/** KEYS: fact. Returns it, nil, or 1 for what is none. */
const readFact = defineScript(
  "fact_read",
  "no-writes",
  `
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then return 1 end
return value and #value > ${LONGEST} and 1 or value`,
);

export interface SharedFactsOptions {
  readonly connection: RedisConnection;
  readonly epochs: SharedEpochs;
  readonly clock: Clock;
  readonly observer: Pick<RedisObserver, "valueRejected">;
}

/** Small facts in Redis, and those of this process while it is away. */
export class SharedFacts {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly observer: Pick<RedisObserver, "valueRejected">;
  private readonly local: Facts;

  constructor({ connection, epochs, clock, observer }: SharedFactsOptions) {
    this.connection = connection;
    this.epochs = epochs;
    this.observer = observer;
    this.local = new Facts(clock);
  }

  remember(key: string, value: string, ttl: Duration): void {
    this.local.remember(key, value, ttl);
    if (!this.connection.isConnected || ttl < 1 || value.length > LONGEST) return;
    const keys = [this.connection.keys.fact(key)];
    const args = [value, Math.floor(ttl)];
    this.connection.write(() => ({ script: writeFact, keys, args }), key.length + value.length);
  }

  recall(key: string): MaybePromise<string | undefined> {
    return this.local.recall(key) ?? (this.epochs.isUsableElsewhere ? this.read(key) : undefined);
  }

  private async read(key: string): Promise<string | undefined> {
    try {
      const call = { script: readFact, keys: [this.connection.keys.fact(key)], args: [] };
      const value = await this.epochs.askElsewhere(call);
      if (typeof value === "number") this.observer.valueRejected("fact");
      return typeof value === "string" ? value : undefined;
    } catch {
      return undefined;
    }
  }
}
