import type { Clock, Duration, Instant } from "../clock.ts";
import type { Rate } from "../config/schema.ts";
import { clientGone, GatewayError } from "../errors.ts";
import type { Limiter } from "../sharing/ports.ts";
import { formatDuration } from "../units.ts";
import { type Turn, WaitQueue } from "./queue.ts";

/** Longest time that a call waits for the limit. */
const LONGEST_WAIT: Duration = 2_000;

/** Time that a wait leaves to the call, a quarter of all at most: one that begins at its deadline is a 504 of our making. */
const LEFT_TO_THE_CALL: Duration = 500;

/** Calls that are asked for at once, at most, for those who wait: Redis may be some milliseconds away. */
const MOST_AT_ONCE = 64;

/** Time for which a refusal is believed; then the limiter is asked again: Redis may have come, gone or forgotten. */
const BELIEVED: Duration = 1_000;

/**
 * Addition to a window, a tenth of it at most, and life of a grant. Calls are not sent at once and do not travel equally long,
 * so that those of one window may arrive in a shorter time.
 */
const TRAVEL: Duration = 100;

/**
 * Keeps the calls to a registry, or to those of a group, within its windows, over all replicas. One pump serves those who wait,
 * in order: it asks for one call, and for twice as many each time that all are granted.
 */
export class RateLimit {
  private readonly key: string;
  /** As configured, for texts. */
  private readonly rates: readonly Rate[];
  /** As counted: longer. */
  private readonly windows: readonly Rate[];
  /** Time for which a grant is good. */
  private readonly grantLife: Duration;
  private readonly limiter: Limiter;
  private readonly clock: Clock;
  private readonly queue: WaitQueue;
  /** By the last refusal: when a call is free again, and when the limiter is asked again. */
  private freeAt: Instant = -Infinity;
  private askAt: Instant = -Infinity;
  private isPumping = false;

  /** @param key stands for the upstream or its group, the same in all replicas */
  constructor(key: string, windows: readonly Rate[], { limiter, clock }: { limiter: Limiter; clock: Clock }) {
    this.key = key;
    this.rates = windows;
    this.windows = windows.map(({ requests, per }) => ({ requests, per: Math.ceil(per + travelOf(per)) }));
    this.grantLife = Math.min(...windows.map(({ per }) => travelOf(per)));
    this.limiter = limiter;
    this.clock = clock;
    this.queue = new WaitQueue(Math.min(...windows.map(mostInLongestWait)), clock);
  }

  /** Calls that wait now. */
  get waiting(): number {
    return this.queue.size;
  }

  /**
   * Takes one call, waiting for it where it must: within its deadline, at most 2 s.
   *
   * @returns when the grant ends: a call that was not sent by then has to take another one
   * @throws GatewayError `rate_limited` with `retryAfter` where it is not to be had in that time, at once where that is known;
   * `client_gone`
   */
  async take(turn: Turn): Promise<Instant> {
    if (turn.signal?.aborted === true) throw clientGone();
    const mayAsk = this.queue.size === 0 && this.clock.now() >= this.askAt;
    if (mayAsk && (await this.ask())) return this.clock.now() + this.grantLife;
    const now = this.clock.now();
    const left = turn.deadline - now;
    const until = now + Math.min(LONGEST_WAIT, left - Math.min(LEFT_TO_THE_CALL, left / 4));
    if (this.freeAt > until || left <= 0) throw this.refusal();
    const turnCame = this.queue.wait({ ...turn, deadline: until }, { full: this.refusal, late: this.refusal });
    this.schedule();
    await turnCame;
    return this.clock.now() + this.grantLife;
  }

  /** Asks the limiter for one call, and notes a refusal. */
  private async ask(): Promise<boolean> {
    const grant = await this.limiter.take(this.key, this.windows);
    if (grant.granted) return true;
    const now = this.clock.now();
    this.freeAt = now + grant.retryIn;
    this.askAt = now + Math.min(grant.retryIn, BELIEVED);
    return false;
  }

  private schedule(): void {
    if (this.isPumping || this.queue.size === 0) return;
    this.isPumping = true;
    this.clock.after(Math.max(this.askAt - this.clock.now(), 1), () => void this.pump());
  }

  private async pump(): Promise<void> {
    let atOnce = 1;
    let isRefused = false;
    while (this.queue.size > 0 && !isRefused) {
      const asked = Array.from({ length: Math.min(atOnce, this.queue.size) }, () => this.ask());
      for (const isGranted of await Promise.all(asked)) {
        if (isGranted) this.queue.admitNext();
        else isRefused = true;
      }
      atOnce = Math.min(2 * atOnce, MOST_AT_ONCE);
    }
    this.isPumping = false;
    this.schedule();
  }

  private readonly refusal = (): GatewayError => {
    const retryAfter = Math.max(1, Math.ceil((this.freeAt - this.clock.now()) / 1_000));
    const most = this.rates.map(({ requests, per }) => `${requests} calls in ${formatDuration(per)}`).join(" and ");
    const text = `the gateway makes at most ${most} to this registry, and none is left; try again in ${retryAfter} s`;
    return new GatewayError("rate_limited", text, { retryAfter });
  };
}

function travelOf(per: Duration): Duration {
  return Math.min(per / 10, TRAVEL);
}

/** Most calls that can be granted while one waits: more need not queue. */
function mostInLongestWait({ requests, per }: Rate): number {
  return requests * (1 + Math.floor(LONGEST_WAIT / per));
}
