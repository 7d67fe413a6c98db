import type { Clock, Duration } from "../../clock.ts";
import { GRANTED_AT_ONCE, type LimitAnswer, type LimitClaim } from "../limits.ts";
import type { AgedCalls } from "../sliding-window.ts";
import type { RedisConnection } from "./connection.ts";
import { type CountedLimit, type CountedWindow, refusal, SLACK } from "./counted-limit.ts";
import type { SharedEpochs } from "./epochs.ts";
import { takeCalls } from "./limit-scripts.ts";
import type { Membership } from "./membership.ts";
import { MAX_WAIT } from "./partitions.ts";
import type { ScriptCall } from "./scripts.ts";

/** A refusal by Redis is believed for this long at most: what is written there may be anybody's. */
const BELIEVED_FOR: Duration = 1_000;

/** What a script is run with: a call that is wanted in these windows, and earlier ones of all windows. */
interface Exchange {
  readonly wanted: LimitClaim["windows"];
  readonly earlier: readonly (readonly AgedCalls[])[];
  /** See {@link CountedLimit.born}. */
  readonly born: string;
}

/** The reply of {@link takeCalls}. */
type TakeReply = readonly [granted: -1 | 0 | 1, born: string, ...numbers: number[]];

interface Learned {
  readonly wanted: LimitClaim["windows"];
  readonly reply: TakeReply;
}

/** What limits in Redis are counted with. */
export interface LimitParts {
  readonly connection: RedisConnection;
  readonly epochs: SharedEpochs;
  readonly members: Membership;
  readonly clock: Clock;
}

/** Reports to Redis what was called here, and asks it for calls. */
export class LimitExchange {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly members: Membership;
  private readonly clock: Clock;

  constructor({ connection, epochs, members, clock }: LimitParts) {
    this.connection = connection;
    this.epochs = epochs;
    this.members = members;
    this.clock = clock;
  }

  /** Gives Redis the calls that it lacks and asks for one in `wanted`. Undefined when Redis is away. Never rejects. */
  async run(limit: CountedLimit, wanted: LimitClaim["windows"]): Promise<LimitAnswer | undefined> {
    const sentAt = this.clock.steadyNow();
    const all = [...limit.windows.all];
    const unsent = all.map(({ unsent: each }) => each.ages(sentAt));
    for (const window of all) {
      window.sending += window.unsent.count(sentAt);
      window.unsent.clear();
    }
    const hasCalls = all.some(({ own }) => own.count(sentAt) > 0);
    try {
      let reply = await this.runScript(limit, all, { wanted, earlier: unsent, born: hasCalls ? limit.born : "" });
      if (reply[0] === -1) {
        // Redis forgot what it had. It is given all that this replica called, once, whoever finds it out.
        if (reply[1] !== limit.born) {
          limit.restoring ??= this.restore(limit, all).finally(() => {
            limit.restoring = undefined;
          });
        }
        await limit.restoring;
        const earlier = sentAt > limit.restoredAt ? unsent : [];
        reply = await this.runScript(limit, all, { wanted, earlier, born: limit.born });
      }
      if (reply[0] === -1) return undefined;
      return this.learn(limit, all, { wanted, reply });
    } catch {
      for (const [i, window] of all.entries()) {
        for (const { age, count } of unsent[i]!) window.unsent.add(sentAt - age, count);
      }
      return undefined;
    } finally {
      for (const [i, window] of all.entries()) window.sending -= sum(unsent[i]!);
    }
  }

  private async restore(limit: CountedLimit, all: readonly CountedWindow[]): Promise<void> {
    limit.restoredAt = this.clock.steadyNow();
    const earlier = all.map(({ own }) => own.ages(limit.restoredAt));
    const [, born] = await this.runScript(limit, all, { wanted: [], earlier, born: "" });
    limit.born = born;
  }

  /** Runs {@link takeCalls}. Rejects when Redis is away. */
  private async runScript(
    limit: CountedLimit,
    all: readonly CountedWindow[],
    { wanted, earlier, born }: Exchange,
  ): Promise<TakeReply> {
    const key = this.connection.keys.limit(limit.kind, limit.id);
    const beyond = this.findBeyond(limit, all, { wanted, earlier });
    const message =
      beyond.length === 0
        ? ""
        : this.connection.message({ kind: "borrowed", key, by: this.members.id, windows: beyond });
    const args: (string | number)[] = [born, this.connection.keys.channel, message, earlier.some(hasCalls) ? 1 : 0];
    for (const [i, window] of all.entries()) {
      const { name, per } = window;
      const calls = earlier[i] ?? [];
      const isWanted = wanted.some((each) => each.name === name && each.per === per);
      args.push(name, per, window.requests, isWanted ? 1 : 0, calls.length);
      for (const { age, count } of calls) args.push(age, count);
    }
    const call: ScriptCall = { script: takeCalls, keys: [key], args };
    if (SLACK[limit.kind] > 0) return (await this.epochs.askElsewhere(call)) as TakeReply;
    const breaker = this.epochs.breakerEverywhere;
    const { session } = breaker;
    try {
      return (await this.connection.run(call, MAX_WAIT)) as TakeReply;
    } catch (error) {
      this.epochs.fail(breaker, session, key);
      throw error;
    }
  }

  /** What of these calls is beyond this replica's share. */
  private findBeyond(limit: CountedLimit, all: readonly CountedWindow[], { wanted, earlier }: Omit<Exchange, "born">) {
    const now = this.clock.steadyNow();
    return all.flatMap((window, i) => {
      const { name, per, claimedAt } = window;
      // Of a length that is not configured any more nobody has a share.
      if (now - claimedAt >= per) return [];
      const isWanted = wanted.some((each) => each.name === name);
      const calls = (isWanted ? 1 : 0) + sum(earlier[i] ?? []);
      const over = window.own.count(now) + (isWanted ? limit.asking : 0) - window.shareOf(this.members, now);
      return calls > 0 && over > 0 ? [{ name, per, count: Math.min(over, calls) }] : [];
    });
  }

  private learn(limit: CountedLimit, all: readonly CountedWindow[], { wanted, reply }: Learned): LimitAnswer {
    const [granted, born, ...numbers] = reply;
    const now = this.clock.steadyNow();
    limit.born = born;
    for (const [i, window] of all.entries()) {
      const wait = numbers[2 * i + 1]!;
      if (wait === 0) continue;
      window.freeAt = now + wait;
      window.refusedUntil = now + Math.min(wait, BELIEVED_FOR);
    }
    const windows = wanted.map((each) => limit.windows.of(each));
    if (granted === 1) for (const { own } of limit.windows.named(wanted)) own.add(now);
    for (const [i, window] of all.entries()) window.learn(numbers[2 * i]!, this.members, now);
    if (granted !== 1) return refusal(windows, now, ({ freeAt }) => Math.max(0, freeAt - now));
    return { granted: true, used: windows.map(({ known }) => known), retryIn: GRANTED_AT_ONCE };
  }
}

function sum(calls: readonly AgedCalls[]): number {
  return calls.reduce((total, { count }) => total + count, 0);
}

function hasCalls(calls: readonly AgedCalls[]): boolean {
  return calls.length > 0;
}
