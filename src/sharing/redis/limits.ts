import type { Clock, Instant, MaybePromise } from "../../clock.ts";
import {
  GRANTED_AT_ONCE,
  type LimitAnswer,
  type LimitClaim,
  type LimitKind,
  type Limits,
  LimitTable,
  type SlotClaim,
} from "../limits.ts";
import type { RedisConnection } from "./connection.ts";
import { CountedLimit, type CountedWindow, refusal, SLACK } from "./counted-limit.ts";
import type { SharedEpochs } from "./epochs.ts";
import { LimitExchange, type LimitParts } from "./limit-exchange.ts";
import { holdSlots } from "./limit-scripts.ts";
import { LimitShares } from "./limit-shares.ts";
import type { Membership } from "./membership.ts";
import type { Message } from "./messages.ts";
import { MAX_WAIT } from "./partitions.ts";

/** Limits that Redis is given the calls of at once when it is there again; those of others go with their next call. */
const MOST_REPORTED = 10_000;

/**
 * Limits counted in Redis; while it is away each replica grants its share of them. From when Redis is there, first or
 * again, count and share hold together until every replica has noticed: no replica counts while another does not.
 */
export class RedisLimits implements Limits {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  private readonly members: Membership;
  private readonly clock: Clock;
  private readonly table = new LimitTable((claim) => new CountedLimit(claim, this.clock));
  private readonly exchange: LimitExchange;
  private readonly shares: LimitShares;

  constructor(parts: LimitParts) {
    const { connection, epochs, members, clock } = parts;
    this.connection = connection;
    this.epochs = epochs;
    this.members = members;
    this.clock = clock;
    this.exchange = new LimitExchange(parts);
    this.shares = new LimitShares(connection.keys, members, clock);
  }

  take(claim: LimitClaim): MaybePromise<LimitAnswer> {
    const limit = this.table.of(claim);
    const windows = limit.of(claim);
    const now = this.clock.steadyNow();
    if (!this.isUsable(claim.kind)) return this.shares.take(limit, windows, now);
    const sharedFor = this.shares.holdsFor(claim.kind, now);
    if (sharedFor > 0 && windows.some((window) => this.shares.freeBesideIn(limit, window, now) > 0)) {
      return refusal(windows, now, (window) => Math.min(this.shares.freeBesideIn(limit, window, now), sharedFor));
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

  recount(claim: LimitClaim): void {
    const limit = this.table.of(claim);
    limit.add(limit.of(claim), this.clock.steadyNow());
    if (this.isUsable(claim.kind) && !limit.isSending) void this.send(limit);
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
    this.shares.lost();
  }

  /** Redis is there: it is given what was granted without it, before any call is counted. */
  regained(): void {
    this.shares.regained();
    const now = this.clock.steadyNow();
    let reported = 0;
    for (const limit of this.table.all()) {
      if (reported === MOST_REPORTED) return;
      if (!limit.windows.all.some(({ own }) => own.count(now) > 0)) continue;
      reported += 1;
      void this.send(limit);
    }
  }

  received(message: Extract<Message, { kind: "borrowed" }>): void {
    this.shares.received(message);
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
    limit.add(windows, now);
    const isDue = windows.some(({ unsent, requests }) => {
      const count = unsent.count(now);
      // A client that sends one request costs Redis nothing.
      return count > 1 && count * 2 >= this.creditOf(requests, SLACK[limit.kind]);
    });
    if (isDue && !limit.isSending) void this.send(limit);
    const used = windows.map(({ known, unsent, sending }) => known + unsent.count(now) + sending);
    return { granted: true, used, retryIn: GRANTED_AT_ONCE };
  }

  private async ask(limit: CountedLimit, claim: LimitClaim): Promise<LimitAnswer> {
    limit.asking += 1;
    const answer = await this.exchange.run(limit, claim.windows);
    limit.asking -= 1;
    if (answer !== undefined) return answer;
    const now = this.clock.steadyNow();
    const windows = limit.of(claim);
    // Noticed late, when Redis is there again already: what is called now has to be counted there.
    return SLACK[limit.kind] === 0 && this.isUsable(limit.kind)
      ? refusal(windows, now, () => MAX_WAIT)
      : this.shares.take(limit, windows, now);
  }

  /** Gives Redis the calls that it lacks. Never rejects. */
  private async send(limit: CountedLimit): Promise<void> {
    limit.isSending = true;
    await this.exchange.run(limit, []);
    limit.isSending = false;
  }
}
