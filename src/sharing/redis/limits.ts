import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { MaybePromise } from "../ports.ts";
import {
  GRANTED_AT_ONCE,
  type LimitAnswer,
  type LimitClaim,
  type LimitKind,
  type Limits,
  LimitTable,
  type SlotClaim,
  type WindowName,
  Windows,
} from "../limits.ts";
import { type AgedCalls, SlidingWindow } from "../sliding-window.ts";
import type { RedisConnection } from "./connection.ts";
import { holdSlots, takeCalls } from "./limit-scripts.ts";
import { MAX_WAIT } from "./partitions.ts";
import type { Message } from "./messages.ts";
import type { ScriptCall } from "./scripts.ts";
import { CHANGING_OVER, type Membership } from "./membership.ts";
import type { SharedEpochs } from "./epochs.ts";

/**
 * Share of a limit that all replicas together may grant without asking Redis first. Calls to a registry are all asked
 * for; a client's requests would wait for Redis too often.
 */
const SLACK: Readonly<Record<LimitKind, number>> = { upstream: 0, client: 0.1, address: 0.1 };

/** A refusal by Redis is believed for this long at most: what is written there may be anybody's. */
const BELIEVED_FOR: Duration = 1_000;

/**
 * Calls to upstreams are held back for this long when Redis went away, or has not been there yet: mostly it is there by
 * then, and a call granted without it could be one too many.
 */
const HELD_BACK: Duration = 350;

/** Limits that Redis is given the calls of at once when it is there again; those of others go with their next call. */
const MOST_REPORTED = 10_000;

/** Limits of which it is known what other replicas took beyond their shares. */
const MOST_BORROWED = 10_000;

/** What a replica knows of one window of a limit. */
class CountedWindow {
  readonly name: string;
  readonly per: Duration;
  /** All calls of this replica. */
  readonly own: SlidingWindow;
  /** Those of them that are not in Redis. */
  readonly unsent: SlidingWindow;
  /** Calls that are on their way to Redis: it lacks them until it says otherwise. */
  sending = 0;
  /** Calls that are allowed, as last claimed. */
  requests = 0;
  /** Calls in Redis, as last read. */
  known = 0;
  /** When there is likely to be room, after a refusal; and until when Redis is not asked again. */
  freeAt: Instant = -Infinity;
  refusedUntil: Instant = -Infinity;

  constructor({ name, per }: WindowName) {
    this.name = name;
    this.per = per;
    this.own = new SlidingWindow(per);
    this.unsent = new SlidingWindow(per);
  }
}

/** What a replica knows of one limit. */
class CountedLimit {
  readonly kind: LimitKind;
  readonly id: string;
  readonly windows = new Windows((name) => new CountedWindow(name));
  /** Names the value in Redis that calls were counted in: one with another name has forgotten them. */
  born = "";
  /** Calls that Redis is being asked for. */
  asking = 0;
  isSending = false;
  restoring: Promise<void> | undefined;

  constructor({ kind, id }: LimitClaim) {
    this.kind = kind;
    this.id = id;
  }

  /** The windows of a claim, in its order. */
  of({ windows }: LimitClaim): CountedWindow[] {
    return windows.map((each) => {
      const window = this.windows.of(each);
      window.requests = each.requests;
      return window;
    });
  }
}

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

export interface RedisLimitsOptions {
  readonly connection: RedisConnection;
  readonly epochs: SharedEpochs;
  readonly members: Membership;
  readonly clock: Clock;
}

/**
 * Limits counted in Redis; while it is away each replica grants its share of them. From when Redis is there, first or
 * again, count and share hold together until every replica has noticed: no replica counts while another does not.
 */
export class RedisLimits implements Limits {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly members: Membership;
  private readonly clock: Clock;
  private readonly table = new LimitTable((claim) => new CountedLimit(claim));
  /** What other replicas took beyond their shares, by the limit's key in Redis: it is missing from this one's share. */
  private readonly borrowed = new LRUCache<string, Windows<SlidingWindow>>({
    maxSize: MOST_BORROWED,
    sizeCalculation: () => 1,
  });
  /** The share of this replica holds beside the count in Redis until this instant. */
  private sharedUntil: Instant = Infinity;
  private lostAt: Instant;

  constructor({ connection, epochs, members, clock }: RedisLimitsOptions) {
    this.connection = connection;
    this.epochs = epochs;
    this.members = members;
    this.clock = clock;
    this.lostAt = clock.now();
  }

  take(claim: LimitClaim): MaybePromise<LimitAnswer> {
    const limit = this.table.of(claim);
    const windows = limit.of(claim);
    const now = this.clock.now();
    if (!this.isUsable(claim.kind)) return this.takeShare(limit, windows, now);
    const sharedFor = this.sharedUntil - now;
    if (sharedFor > 0 && windows.some((window) => this.shareIn(limit, window, now) > 0)) {
      return refusal(windows, now, (window) => Math.min(this.shareIn(limit, window, now), sharedFor));
    }
    // Whatever Redis says, no replica alone goes beyond a limit.
    if (windows.some(({ own, requests }) => own.count(now) >= requests)) {
      return refusal(windows, now, ({ own, requests }) => own.freeIn(now, requests));
    }
    if (SLACK[claim.kind] === 0 || sharedFor > 0) return this.ask(limit, claim);
    if (windows.some(({ refusedUntil }) => now < refusedUntil)) {
      return refusal(windows, now, ({ freeAt }) => Math.max(0, freeAt - now));
    }
    return this.hasCredit(windows, SLACK[claim.kind], now)
      ? this.grantOnCredit(limit, windows, now)
      : this.ask(limit, claim);
  }

  async hold(claim: SlotClaim): Promise<number> {
    const { id, running, wanted, max } = claim;
    const share = () => Math.max(running, Math.min(wanted, Math.max(1, this.members.shareOf(max))));
    if (!this.isUsable("client")) return share();
    const keys = [this.connection.keys.slots(id)];
    const args = [this.members.id, running, wanted, max];
    try {
      return Number(await this.epochs.askElsewhere({ script: holdSlots, keys, args }));
    } catch {
      return share();
    }
  }

  /** Redis is away: what it counts is not what is called from now on. */
  lost(): void {
    this.lostAt = this.clock.now();
    this.sharedUntil = Infinity;
  }

  /** Redis is there: it is given what was granted without it, before any call is counted. */
  regained(): void {
    this.sharedUntil = this.clock.now() + CHANGING_OVER;
    const now = this.clock.now();
    let reported = 0;
    for (const limit of this.table.all()) {
      if (reported === MOST_REPORTED) return;
      if (!limit.windows.all.some(({ own }) => own.count(now) > 0)) continue;
      reported += 1;
      void this.send(limit);
    }
  }

  received({ key, by, windows }: Extract<Message, { kind: "borrowed" }>): void {
    if (by === this.members.id) return;
    let borrowed = this.borrowed.get(key);
    if (borrowed === undefined) this.borrowed.set(key, (borrowed = new Windows(({ per }) => new SlidingWindow(per))));
    for (const each of windows) borrowed.of(each).add(this.clock.now(), each.count);
  }

  /** Whether Redis may be asked. In a cluster, clients do not depend on the shards that are there for upstreams. */
  private isUsable(kind: LimitKind): boolean {
    return SLACK[kind] === 0 ? this.epochs.isUsable : this.epochs.isUsableElsewhere;
  }

  /** Whether each window has room without asking Redis: far from full as last read, with few calls that it lacks. */
  private hasCredit(windows: readonly CountedWindow[], slack: number, now: Instant): boolean {
    return windows.every(({ known, unsent, sending, requests }) => {
      const more = unsent.count(now) + sending + 1;
      return more <= this.creditOf(requests, slack) && known + more <= requests * (1 - slack);
    });
  }

  private creditOf(requests: number, slack: number): number {
    return Math.floor((requests * slack) / this.members.likelyCount);
  }

  private grantOnCredit(limit: CountedLimit, windows: readonly CountedWindow[], now: Instant): LimitAnswer {
    let isDue = false;
    for (const { own, unsent, requests } of windows) {
      own.add(now);
      unsent.add(now);
      const count = unsent.count(now);
      // A client that sends one request costs Redis nothing.
      if (count > 1 && count * 2 >= this.creditOf(requests, SLACK[limit.kind])) isDue = true;
    }
    if (isDue && !limit.isSending) void this.send(limit);
    const used = windows.map(({ known, unsent, sending }) => known + unsent.count(now) + sending);
    return { granted: true, used, retryIn: GRANTED_AT_ONCE };
  }

  private async ask(limit: CountedLimit, claim: LimitClaim): Promise<LimitAnswer> {
    limit.asking += 1;
    const answer = await this.exchange(limit, claim.windows);
    limit.asking -= 1;
    if (answer !== undefined) return answer;
    const now = this.clock.now();
    const windows = limit.of(claim);
    // Noticed late, when Redis is there again already: what is called now has to be counted there.
    return SLACK[limit.kind] === 0 && this.isUsable(limit.kind)
      ? refusal(windows, now, () => MAX_WAIT)
      : this.takeShare(limit, windows, now);
  }

  /** Gives Redis the calls that it lacks. Never rejects. */
  private async send(limit: CountedLimit): Promise<void> {
    limit.isSending = true;
    await this.exchange(limit, []);
    limit.isSending = false;
  }

  /** Gives Redis the calls that it lacks and asks for one in `wanted`. Undefined when Redis is away. Never rejects. */
  private async exchange(limit: CountedLimit, wanted: LimitClaim["windows"]): Promise<LimitAnswer | undefined> {
    const sentAt = this.clock.now();
    const all = [...limit.windows.all];
    const unsent = all.map(({ unsent: each }) => each.ages(sentAt));
    for (const window of all) {
      window.sending += window.unsent.count(sentAt);
      window.unsent.clear();
    }
    const hasCalls = all.some(({ own }) => own.count(sentAt) > 0);
    try {
      let reply = await this.run(limit, all, { wanted, earlier: unsent, born: hasCalls ? limit.born : "" });
      if (reply[0] === -1) {
        // Redis forgot what it had. It is given all that this replica called, once, whoever finds it out.
        limit.restoring ??= this.restore(limit, all).finally(() => {
          limit.restoring = undefined;
        });
        await limit.restoring;
        reply = await this.run(limit, all, { wanted, earlier: [], born: limit.born });
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
    const earlier = all.map(({ own }) => own.ages(this.clock.now()));
    const [, born] = await this.run(limit, all, { wanted: [], earlier, born: "" });
    limit.born = born;
  }

  /** Runs {@link takeCalls}. Rejects when Redis is away. */
  private async run(
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
      this.epochs.fail(breaker, session);
      throw error;
    }
  }

  /** What of these calls is beyond this replica's share. */
  private findBeyond(limit: CountedLimit, all: readonly CountedWindow[], { wanted, earlier }: Omit<Exchange, "born">) {
    const now = this.clock.now();
    return all.flatMap((window, i) => {
      const { name, per } = window;
      const isWanted = wanted.some((each) => each.name === name && each.per === per);
      const calls = (isWanted ? 1 : 0) + sum(earlier[i] ?? []);
      const over = window.own.count(now) + (isWanted ? limit.asking : 0) - this.members.shareOf(window.requests);
      return calls > 0 && over > 0 ? [{ name, per, count: Math.min(over, calls) }] : [];
    });
  }

  private learn(limit: CountedLimit, all: readonly CountedWindow[], { wanted, reply }: Learned): LimitAnswer {
    const [granted, born, ...numbers] = reply;
    const now = this.clock.now();
    limit.born = born;
    for (const [i, window] of all.entries()) {
      window.known = numbers[2 * i]!;
      const wait = numbers[2 * i + 1]!;
      if (wait === 0) continue;
      window.freeAt = now + wait;
      window.refusedUntil = now + Math.min(wait, BELIEVED_FOR);
    }
    const windows = wanted.map((each) => limit.windows.of(each));
    if (granted !== 1) return refusal(windows, now, ({ freeAt }) => Math.max(0, freeAt - now));
    for (const { own } of windows) own.add(now);
    return { granted: true, used: windows.map(({ known }) => known), retryIn: GRANTED_AT_ONCE };
  }

  /** Takes a call out of this replica's share of the limit. */
  private takeShare(limit: CountedLimit, windows: readonly CountedWindow[], now: Instant): LimitAnswer {
    const heldBack = SLACK[limit.kind] === 0 ? this.lostAt + HELD_BACK - now : 0;
    if (heldBack > 0) return refusal(windows, now, () => Math.min(heldBack, MAX_WAIT));
    if (windows.some((window) => this.shareIn(limit, window, now) > 0)) {
      return refusal(windows, now, (window) => this.shareIn(limit, window, now));
    }
    for (const { own, unsent } of windows) {
      own.add(now);
      unsent.add(now);
    }
    const used = windows.map((window) => window.requests - this.shareOf(limit, window, now) + window.own.count(now));
    return { granted: true, used, retryIn: GRANTED_AT_ONCE };
  }

  /** How long until this replica's share allows a call; 0 when it does now. */
  private shareIn(limit: CountedLimit, window: CountedWindow, now: Instant): Duration {
    const share = this.shareOf(limit, window, now);
    if (share > 0) return window.own.freeIn(now, share);
    // The others have it all, until the first of their calls is out of the window.
    return this.borrowedOf(limit, window)?.freeIn(now, this.members.shareOf(window.requests)) || window.per;
  }

  private shareOf(limit: CountedLimit, window: CountedWindow, now: Instant): number {
    return this.members.shareOf(window.requests) - (this.borrowedOf(limit, window)?.count(now) ?? 0);
  }

  private borrowedOf(limit: CountedLimit, { name, per }: CountedWindow): SlidingWindow | undefined {
    if (this.borrowed.size === 0) return undefined;
    return this.borrowed.get(this.connection.keys.limit(limit.kind, limit.id))?.of({ name, per });
  }
}

function sum(calls: readonly AgedCalls[]): number {
  return calls.reduce((total, { count }) => total + count, 0);
}

function hasCalls(calls: readonly AgedCalls[]): boolean {
  return calls.length > 0;
}

/** As far as is known, where Redis is not asked or refused. */
function refusal(
  windows: readonly CountedWindow[],
  now: Instant,
  retryIn: (window: CountedWindow) => Duration,
): LimitAnswer {
  const used = windows.map(({ own, unsent, known }) => Math.max(own.count(now), known + unsent.count(now)));
  return { granted: false, used, retryIn: windows.map(retryIn) };
}
