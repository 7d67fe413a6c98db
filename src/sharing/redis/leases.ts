import { randomUUID } from "node:crypto";
import type { CancelTimer, Clock, Duration } from "../../clock.ts";
import type { Lease, Leases, SharedKey } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import { TICKS } from "./in-time.ts";
import type { Keys } from "./keys.ts";

/** Life of a lease that is not renewed: nobody waits longer for a holder that has died. */
const LIFE: Duration = 2_000;

/** Leases in Redis: each is a key with the holder's token. */
export class RedisLeases implements Leases {
  private readonly connection: RedisConnection;
  private readonly keys: Keys;
  private readonly clock: Clock;

  constructor(connection: RedisConnection, keys: Keys, clock: Clock) {
    this.connection = connection;
    this.keys = keys;
    this.clock = clock;
  }

  async acquire(of: SharedKey): Promise<Lease | "held" | "none"> {
    const key = this.keys.lease(of);
    const token = randomUUID();
    let isWaiting = true;
    const answer = await this.connection.ask("lease", async (redis) => {
      const taken = await redis.set(key, token, "PX", LIFE, "NX");
      // A lease that comes too late is given back: others would wait for it.
      if (!isWaiting) redis.keepLease(key, token, 0).catch(() => {});
      return taken;
    });
    isWaiting = false;
    if (answer === undefined) return "none";
    return answer === null ? "held" : this.keep(key, token);
  }

  private keep(key: string, token: string): Lease {
    let isReleased = false;
    let cancel: CancelTimer = () => {};
    const renewLater = (): void => {
      cancel = this.clock.after(LIFE / 3, () => void renew());
    };
    // While Redis is away, renewing goes on; a lease that is another's by now, or nobody's, is over.
    const renew = async (): Promise<void> => {
      const kept = await this.connection.ask("renew", (redis) => redis.keepLease(key, token, LIFE), TICKS.background);
      if (!isReleased && kept !== 0) renewLater();
    };
    renewLater();
    return {
      release: () => {
        if (isReleased) return;
        isReleased = true;
        cancel();
        this.connection.tell("release", 0, (redis) => redis.keepLease(key, token, 0));
      },
    };
  }
}
