import type { Clock } from "../../clock.ts";
import { Epochs, EVERYBODY } from "../epochs.ts";
import type { Purges } from "../ports.ts";
import type { Ask, RedisConnection } from "./connection.ts";
import type { Commands } from "./clients.ts";
import type { Keys } from "./keys.ts";

/** Longest message, in characters: an epoch and a party id. */
const LONGEST_MESSAGE = 1_000;

/** Epochs that all replicas know: kept in one hash, told on one channel, and read again in case a message was lost. */
export class RedisPurges implements Purges {
  private readonly connection: RedisConnection;
  private readonly keys: Keys;
  private readonly clock: Clock;
  private readonly epochs = new Epochs();
  /** Parties whose purge has not reached Redis. */
  private readonly pending = new Set<string>();

  constructor(connection: RedisConnection, keys: Keys, clock: Clock) {
    this.connection = connection;
    this.keys = keys;
    this.clock = clock;
  }

  epochOf(party: string): number {
    return this.epochs.of(party);
  }

  async purge(party = EVERYBODY): Promise<"done" | "pending"> {
    const epoch = this.epochs.raise(party, this.clock.wallNow());
    this.pending.add(party);
    const raised = await this.connection.ask("purge", this.raise(party, epoch, 1));
    if (raised === undefined) return "pending";
    this.reached(party, raised);
    return "done";
  }

  /** Reads a message of the channel; one that is none changes nothing. */
  received(message: string): void {
    const space = message.indexOf(" ");
    if (message.length > LONGEST_MESSAGE || space === -1) return;
    this.epochs.learn(message.slice(space + 1), Number(message.slice(0, space)));
  }

  /** Writes purges that are pending, reads those of others, and writes epochs that Redis has lost. */
  async refresh(ask: Ask): Promise<void> {
    for (const party of this.pending) {
      // Above the pending one: others may have purged meanwhile by a clock that is behind ours. It is begun here only when Redis
      // has it: a Redis that takes no writes would have this replica forget all with each try.
      const epoch = this.epochs.next(party, this.clock.wallNow());
      this.reached(party, await ask("purge", this.raise(party, epoch, 1)));
    }
    const stored = await ask("epochs", (redis) => redis.hgetall(this.keys.epochs));
    for (const [party, epoch] of Object.entries(stored)) this.epochs.learn(party, Number(epoch));
    for (const [party, epoch] of this.epochs.missingIn(stored)) await ask("purge", this.raise(party, epoch, 0));
  }

  private raise(party: string, epoch: number, above: 0 | 1) {
    const { epochs, channel } = this.keys;
    return (redis: Commands) => redis.raiseEpoch(epochs, channel, party, epoch, above);
  }

  private reached(party: string, epoch: string): void {
    this.epochs.learn(party, Number(epoch));
    this.pending.delete(party);
  }
}
