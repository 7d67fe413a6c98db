import { LRUCache } from "lru-cache";
import type { Clock, Duration } from "../clock.ts";
import type { Rate } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import type { Client, ClientReport, ClientUsage, LimitState } from "./client.ts";

/** A window is counted in so many slots: a request counts until it is `per` old, and for one slot more at most. */
const SLOTS = 128;

/** Requests of one client in a sliding window: never more than allowed in any window of `per`. */
export class SlidingWindow {
  readonly per: Duration;
  private readonly width: Duration;
  /** A ring: the running slot, and as many before it as a whole window has. */
  private readonly slots = new Uint32Array(SLOTS + 1);
  /** Number of the running slot since the clock's origin. */
  private slot = -Infinity;
  private used = 0;

  constructor(per: Duration) {
    this.per = per;
    this.width = per / SLOTS;
  }

  /** Counts one more, where there is room: what is left then, or how long it takes until there may be some. */
  take(requests: number, now: number): { readonly left: number } | { readonly retryIn: Duration } {
    this.move(Math.floor(now / this.width));
    if (this.used >= requests) return { retryIn: this.oldestEnd() - now };
    this.slots[this.index(this.slot)]! += 1;
    this.used += 1;
    return { left: requests - this.used };
  }

  private move(slot: number): void {
    if (slot <= this.slot) return;
    for (let each = Math.max(this.slot + 1, slot - SLOTS); each <= slot; each += 1) {
      this.used -= this.slots[this.index(each)]!;
      this.slots[this.index(each)] = 0;
    }
    this.slot = slot;
  }

  /** When the oldest requests that still count stop to do so, on the clock. */
  private oldestEnd(): number {
    let oldest = this.slot - SLOTS;
    while (this.slots[this.index(oldest)] === 0 && oldest < this.slot) oldest += 1;
    return (oldest + SLOTS + 1) * this.width;
  }

  private index(slot: number): number {
    // The clock begins near 0: the slots before it have numbers below.
    return ((slot % (SLOTS + 1)) + SLOTS + 1) % (SLOTS + 1);
  }
}

interface State {
  client: Client;
  window: SlidingWindow | undefined;
  running: number;
  /** Usage of this client, or the one of all who show no credential. */
  readonly usage: Usage;
}

type Usage = { -readonly [Key in keyof ClientUsage]: ClientUsage[Key] };

const NOTHING_USED: ClientUsage = { requests: 0, refused: 0, running: 0 };

/** Clients that are remembered, those with a credential and those without apart: a flood of addresses forgets no key. */
const MOST_CLIENTS = 20_000;

/**
 * Limits of clients, counted in the memory of this replica: a sliding window of requests, and calls at once. They outlive
 * reloads, and so do their counts.
 */
export class ClientLimits {
  private readonly clock: Clock;
  private readonly byId = new LRUCache<string, State>({ max: MOST_CLIENTS });
  private readonly byAddress = new LRUCache<string, State>({ max: MOST_CLIENTS });
  private readonly ofAnonymous: Usage = { ...NOTHING_USED };

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Counts one request of the client, where there is room for it. */
  admit(client: Client): LimitState {
    const state = this.stateOf(client);
    state.usage.requests += 1;
    state.usage.lastSeen = this.clock.wallNow();
    const { requests: rate } = client.limits;
    if (rate === undefined) return { fields: [], refusal: undefined };
    if (state.window?.per !== rate.per) state.window = new SlidingWindow(rate.per);
    const taken = state.window.take(rate.requests, this.clock.now());
    if ("left" in taken) return { fields: fieldsOf(client.tier, rate, taken.left), refusal: undefined };
    state.usage.refused += 1;
    const retryAfter = Math.max(1, Math.ceil(taken.retryIn / 1_000));
    return { fields: fieldsOf(client.tier, rate, 0, retryAfter), refusal: overRate(client.tier, retryAfter) };
  }

  /**
   * Takes a place among the client's calls that run at once. Returns what gives it back; calling that again does nothing.
   *
   * @throws GatewayError 429 where all places are taken
   */
  enter(client: Client): () => void {
    const state = this.stateOf(client);
    const { concurrency = Infinity } = client.limits;
    if (state.running >= concurrency) {
      state.usage.refused += 1;
      throw overConcurrency(client.tier, concurrency);
    }
    state.running += 1;
    state.usage.running += 1;
    let isIn = true;
    return () => {
      if (isIn) state.usage.running -= 1;
      if (isIn) state.running -= 1;
      isIn = false;
    };
  }

  /** Reports of the clients with a credential that have called, by their ids. */
  named(): Map<string, ClientReport> {
    const report = ({ client: { name, kind, tier }, usage }: State): ClientReport => ({ name, kind, tier, ...usage });
    return new Map([...this.byId.entries()].map(([id, state]) => [id, report(state)]));
  }

  /** Usage of all who showed no credential, together. */
  anonymous(): ClientUsage {
    return { ...this.ofAnonymous };
  }

  private stateOf(client: Client): State {
    const isAnonymous = client.kind === "anonymous";
    const states = isAnonymous ? this.byAddress : this.byId;
    let state = states.get(client.id);
    if (state === undefined) {
      const usage = isAnonymous ? this.ofAnonymous : { ...NOTHING_USED };
      state = { client, window: undefined, running: 0, usage };
      states.set(client.id, state);
    }
    state.client = client;
    return state;
  }
}

/**
 * `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10): `r` requests are left; after `t` seconds
 * without a request all are there again or, where none is left, the next one may be. A window that is no whole number of
 * seconds becomes the next one, with as much more in it.
 */
function fieldsOf(tier: string, { requests, per }: Rate, left: number, after = Math.ceil(per / 1_000)): string[] {
  const window = Math.ceil(per / 1_000);
  const quota = Math.round((requests * window * 1_000) / per);
  return ["ratelimit", `"${tier}";r=${left};t=${after}`, "ratelimit-policy", `"${tier}";q=${quota};w=${window}`];
}

function overRate(tier: string, retryAfter: number): GatewayError {
  return new GatewayError(
    "client_rate_limited",
    `this client has sent as many requests as its tier ${tier} allows for now; try again in ${retryAfter} s`,
    { retryAfter },
  );
}

function overConcurrency(tier: string, most: number): GatewayError {
  return new GatewayError(
    "client_concurrency",
    `${most} calls of this client run already, as many as its tier ${tier} allows at once; try again when one is answered`,
    { retryAfter: 1 },
  );
}
