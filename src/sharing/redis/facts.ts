import type { Clock, Duration, MaybePromise } from "../../clock.ts";
import { Facts } from "../alone.ts";
import type { FactsPort } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisObserver } from "./observer.ts";
import type { SharedEpochs } from "./epochs.ts";
import { readingOf, writingOf } from "./values.ts";

/** Characters; a party id is shorter. In Redis there may be its end and its seal besides. */
const LONGEST = 1_024;

/** So far apart the wall clocks of replicas may be. */
const CLOCKS_APART: Duration = 60_000;

export interface SharedFactsOptions {
  readonly connection: RedisConnection;
  readonly epochs: SharedEpochs;
  readonly clock: Clock;
  readonly observer: Pick<RedisObserver, "valueRejected">;
}

/** Small facts in Redis, and those of this process while it is away. */
export class SharedFacts implements FactsPort {
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
    const sealed = this.connection.seals.seal({ kind: "fact", key: name }, text);
    const write = { key: name, text: sealed, ttl: Math.floor(ttl) };
    this.connection.write(() => writingOf(this.connection, write, false), key.length + value.length);
  }

  recall(key: string): MaybePromise<readonly string[]> {
    const own = this.local.recall(key);
    return this.epochs.isUsableElsewhere ? this.read(key).then((shared) => joined(own, shared)) : own;
  }

  private async read(key: string): Promise<string | undefined> {
    try {
      const name = this.connection.keys.fact(key);
      const value = await this.epochs.askElsewhere(readingOf(name));
      if (typeof value === "number") this.observer.valueRejected("fact", "form");
      return typeof value === "string" && value !== "" ? this.open(name, value) : undefined;
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

function joined(own: readonly string[], shared: string | undefined): readonly string[] {
  return shared === undefined || own.includes(shared) ? own : [...own, shared];
}
