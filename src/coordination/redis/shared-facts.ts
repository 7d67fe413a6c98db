import type { Clock, Duration } from "../../clock.ts";
import type { MaybePromise } from "../coordinator.ts";
import { Facts } from "../local.ts";
import type { RedisConnection, RedisObserver } from "./connection.ts";
import { defineScript } from "./protocol.ts";
import type { SharedEpochs } from "./shared-epochs.ts";

/** Characters; a party id is shorter. In Redis there may be its end and its seal besides. */
const LONGEST = 1_024;
const LONGEST_SEALED = 1_100;

/** So far apart the wall clocks of replicas may be. */
const CLOCKS_APART: Duration = 60_000;

const writeFact = defineScript("fact_write", "", "return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])");
/** KEYS: fact. Returns it, nil, or 1 for what is none. */
const readFact = defineScript(
  "fact_read",
  "no-writes",
  `
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then return 1 end
return value and #value > ${LONGEST_SEALED} and 1 or value`,
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
  private readonly clock: Clock;
  private readonly observer: Pick<RedisObserver, "valueRejected">;
  private readonly local: Facts;

  constructor({ connection, epochs, clock, observer }: SharedFactsOptions) {
    this.connection = connection;
    this.epochs = epochs;
    this.clock = clock;
    this.observer = observer;
    this.local = new Facts(clock);
  }

  remember(key: string, value: string, ttl: Duration): void {
    this.local.remember(key, value, ttl);
    if (!this.connection.isConnected || ttl < 1 || value.length > LONGEST) return;
    const name = this.connection.keys.fact(key);
    // Sealed with when it ends: Redis could be made to keep it for ever.
    const until = Math.floor(this.clock.wallNow() + ttl);
    const text = this.connection.seals.areOn ? `${until} ${value}` : value;
    const args = [this.connection.seals.seal({ kind: "fact", key: name }, text), Math.floor(ttl)];
    this.connection.write(() => ({ script: writeFact, keys: [name], args }), key.length + value.length);
  }

  recall(key: string): MaybePromise<string | undefined> {
    return this.local.recall(key) ?? (this.epochs.isUsableElsewhere ? this.read(key) : undefined);
  }

  private async read(key: string): Promise<string | undefined> {
    try {
      const name = this.connection.keys.fact(key);
      const value = await this.epochs.askElsewhere({ script: readFact, keys: [name], args: [] });
      if (typeof value === "number") this.observer.valueRejected("fact", "form");
      return typeof value === "string" ? this.open(name, value) : undefined;
    } catch {
      return undefined;
    }
  }

  private open(key: string, sealed: string): string | undefined {
    const { seals } = this.connection;
    if (!seals.areOn) return sealed;
    const opened = seals.open({ kind: "fact", key }, sealed);
    if (opened === undefined) {
      this.observer.valueRejected("fact", "seal");
      return undefined;
    }
    const [, until, value] = /^(\d+) (.*)$/s.exec(opened.text) ?? [];
    return Number(until) + CLOCKS_APART > this.clock.wallNow() ? value : undefined;
  }
}
