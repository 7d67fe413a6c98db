import type { Clock, Duration } from "../../clock.ts";
import type { MaybePromise } from "../coordinator.ts";
import { Facts } from "../local.ts";
import type { RedisConnection } from "./connection.ts";
import { defineScript } from "./protocol.ts";
import type { SharedEpochs } from "./shared-epochs.ts";

const writeFact = defineScript("fact_write", "", "return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])");
const readFact = defineScript("fact_read", "no-writes", "return redis.call('GET', KEYS[1])");

/** Small facts in Redis, and those of this process while it is away. */
export class SharedFacts {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly local: Facts;

  constructor(connection: RedisConnection, epochs: SharedEpochs, clock: Clock) {
    this.connection = connection;
    this.epochs = epochs;
    this.local = new Facts(clock);
  }

  remember(key: string, value: string, ttl: Duration): void {
    this.local.remember(key, value, ttl);
    if (!this.connection.isConnected || ttl < 1) return;
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
      return typeof value === "string" ? value : undefined;
    } catch {
      return undefined;
    }
  }
}
