import { randomBytes } from "node:crypto";
import { type CancelTimer, type Clock, type Duration, type Instant, sleep, type MaybePromise } from "../../clock.ts";
import { digestOf } from "../../digest.ts";
import type { FetchOutcome, Lease, LeasesPort } from "../ports.ts";
import { LocalLeases, Waiters } from "../leases.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisObserver } from "./observer.ts";
import { defineScript } from "./scripts.ts";
import type { Message } from "./messages.ts";
import type { SharedEpochs } from "./epochs.ts";
import { readingOf, VALUE_OF, writingOf } from "./values.ts";

/** A dead holder keeps the others waiting for this long at most; a living one renews at a third of it. */
const LEASE: Duration = 2_000;

/** How long the outcome is kept for those who missed the message. */
const OUTCOME_KEPT: Duration = 2_000;

/** Longer than it takes from looking into the shared tier to asking for the lease; shorter than any entry lives. */
const LOOK_AGAIN: Duration = 100;

/** How often those who wait look themselves, for messages that were lost and holders that died. */
const POLL_EVERY: Duration = 150;

/** What was fetched is in Redis before the lease is given up, unless that takes longer. */
const WRITE_FIRST: Duration = 200;

/** Begins what a released lease leaves behind: its outcome, for those who ask a moment later. */
const RELEASED = "=";

/**
 * KEYS: lease. ARGV: token, how long it holds (ms), how long an outcome is kept (ms), how long "stored" goes before a
 * new lease (ms), a holder that counts as none ('' for none). Returns 1 when it is ours now, else what holds it.
 *
 * A replica that looked into the shared tier just before another one stored there, and asks just after, is sent back to
 * look again.
 */
const takeLease = defineScript(
  "lease_take",
  "allow-oom",
  `${VALUE_OF}
local holder = valueOf(KEYS[1])
local left = redis.call('PTTL', KEYS[1])
-- A foreign value, which may stay for ever, is no lease.
if type(holder) == 'string' and holder ~= '' and holder ~= ARGV[5] and left > 0 and left <= math.max(ARGV[2], ARGV[3]) then
  if string.sub(holder, 1, 1) ~= '${RELEASED}' then return holder end
  if string.match(holder, '^${RELEASED}stored') and ARGV[3] - left < tonumber(ARGV[4]) then return holder end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`,
);

/** For people and `/status`. */
export interface LeaseStatus {
  readonly held: number;
  readonly awaited: number;
}

export interface SharedLeasesOptions {
  readonly connection: RedisConnection;
  readonly epochs: SharedEpochs;
  readonly clock: Clock;
  readonly observer: Pick<RedisObserver, "valueRejected">;
}

/** Leases held in Redis; within this process alone while Redis is away. */
export class SharedLeases implements LeasesPort {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly clock: Clock;
  private readonly observer: SharedLeasesOptions["observer"];
  private readonly local: LocalLeases;
  private readonly waiters: Waiters;
  /** Each gives up one lease of this process. */
  private readonly held = new Set<(outcome: FetchOutcome) => Promise<void>>();
  private isPolling = false;
  private isClosed = false;

  constructor({ connection, epochs, clock, observer }: SharedLeasesOptions) {
    this.connection = connection;
    this.epochs = epochs;
    this.clock = clock;
    this.observer = observer;
    this.local = new LocalLeases(clock);
    this.waiters = new Waiters(clock);
  }

  /** Keys that this process has the lease of, and those it waits for another one's. */
  status(): LeaseStatus {
    return { held: this.held.size, awaited: this.waiters.size };
  }

  acquire(key: string): MaybePromise<Lease | undefined> {
    return this.epochs.isUsableElsewhere && !this.isClosed ? this.take(key) : this.local.acquire(key);
  }

  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    if (this.local.isHeld(key)) return this.local.whenReleased(key, deadline);
    if (this.isClosed) return Promise.resolve("failed");
    const name = digestOf(key);
    const outcome = this.waiters.wait(name, deadline);
    // It may have been released before this process began to listen.
    void this.look(name);
    this.poll();
    return outcome;
  }

  received(message: Extract<Message, { kind: "lease" }>): void {
    this.waiters.wake(message.name, asOutcome(message.outcome));
  }

  /** Gives up what is held: no replica has to wait for a process that ended. */
  async close(): Promise<void> {
    this.isClosed = true;
    this.local.close();
    this.waiters.wakeAll("failed");
    await Promise.all([...this.held].map((release) => release("failed")));
  }

  private async take(key: string): Promise<Lease | undefined> {
    const name = digestOf(key);
    const lease = this.connection.keys.lease(name);
    const token = this.connection.seals.seal({ kind: "lease", key: lease }, randomBytes(12).toString("base64url"));
    const ask = (foreign: string) => {
      const args = [token, LEASE, OUTCOME_KEPT, LOOK_AGAIN, foreign];
      return this.epochs.askElsewhere({ script: takeLease, keys: [lease], args });
    };
    try {
      let holder = await ask("");
      if (typeof holder === "string" && this.open(lease, holder) === undefined) holder = await ask(holder);
      return holder === 1 ? this.hold(name, token) : undefined;
    } catch {
      const local = this.local.acquire(key);
      if (local === undefined) return undefined;
      return {
        release: (outcome) => {
          local.release(outcome);
          // Redis may have granted it all the same, too late.
          void this.giveUp(name, token, outcome);
        },
      };
    }
  }

  private hold(name: string, token: string): Lease {
    let cancel: CancelTimer = () => {};
    const renewLater = (): void => {
      cancel = this.clock.after(LEASE / 3, () => {
        const write = { key: this.connection.keys.lease(name), expected: token, text: token, ttl: LEASE };
        // When it is lost another replica fetches too; the fetch goes on, and its answer is as good.
        this.connection.run(writingOf(this.connection, write)).catch(() => {});
        renewLater();
      });
    };
    renewLater();
    const release = async (outcome: FetchOutcome): Promise<void> => {
      if (!this.held.delete(release)) return;
      await this.connection.settled(WRITE_FIRST);
      cancel();
      await this.giveUp(name, token, outcome);
    };
    this.held.add(release);
    return { release: (outcome) => void release(outcome) };
  }

  /** Tries again while the lease would keep the others waiting: the connection may have been lost. */
  private async giveUp(name: string, token: string, outcome: FetchOutcome): Promise<void> {
    this.waiters.wake(name, outcome);
    const { keys, seals } = this.connection;
    const key = keys.lease(name);
    const text = seals.seal({ kind: "lease", key }, RELEASED + outcome);
    const message = this.connection.message({ kind: "lease", name, outcome });
    const call = writingOf(this.connection, { key, expected: token, text, ttl: OUTCOME_KEPT, message });
    const end = this.clock.now() + LEASE;
    while (this.clock.now() < end) {
      try {
        await this.connection.run(call);
        return;
      } catch {
        if (this.isClosed) return;
        await sleep(POLL_EVERY, this.clock);
      }
    }
  }

  /** A token or outcome in Redis; undefined where it is none of ours. */
  private open(lease: string, sealed: string): string | undefined {
    const opened = this.connection.seals.open({ kind: "lease", key: lease }, sealed)?.text;
    if (opened === undefined) this.observer.valueRejected("lease", "seal");
    return opened;
  }

  private poll(): void {
    if (this.isPolling || this.isClosed) return;
    this.isPolling = true;
    this.clock.after(POLL_EVERY, () => {
      this.isPolling = false;
      for (const name of this.waiters.keys()) void this.look(name);
      if (this.waiters.size > 0) this.poll();
    });
  }

  private async look(name: string): Promise<void> {
    if (!this.epochs.isUsable) {
      this.waiters.wake(name, "failed");
      return;
    }
    try {
      const lease = this.connection.keys.lease(name);
      const found = await this.connection.run(readingOf(lease), POLL_EVERY);
      const holder = typeof found === "string" && found !== "" ? this.open(lease, found) : undefined;
      if (holder === undefined) this.waiters.wake(name, "failed");
      else if (holder.startsWith(RELEASED)) this.waiters.wake(name, asOutcome(holder.slice(RELEASED.length)));
    } catch {
      // The next look, or Redis found to be away, ends the wait; of a cluster this shard alone may be.
      if (this.connection.isCluster) this.waiters.wake(name, "failed");
    }
  }
}

/** An outcome in the words of another version of this program counts as "failed": those who wait look it up. */
function asOutcome(text: string): FetchOutcome {
  return text === "stored" || text === "uncacheable" ? text : "failed";
}
