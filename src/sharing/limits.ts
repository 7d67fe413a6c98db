import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant, MaybePromise } from "../clock.ts";
import { type Rate, SlidingWindow } from "./sliding-window.ts";

/** What a limit is of: calls to upstreams, requests of clients with a credential, requests by client address. */
export type LimitKind = "upstream" | "client" | "address";

/** One window of a limit. */
export interface LimitWindow extends Rate {
  /** Letters. The calls of one name and `per` are counted together, whatever `requests` is. */
  readonly name: string;
}

/** A call that wants to count in windows of a limit: in all of them, or it is refused and counts in none. */
export interface LimitClaim {
  readonly kind: LimitKind;
  /** Names the limit among those of its kind. */
  readonly id: string;
  readonly windows: readonly LimitWindow[];
}

export interface LimitAnswer {
  readonly granted: boolean;
  /** Calls in each window of the claim, the granted one included. */
  readonly used: readonly number[];
  /** 0 when granted; else how long until each window is likely to have room (0 in one that has). */
  readonly retryIn: readonly Duration[];
}

/** What a process says of the requests of one client that are in flight in it. */
export interface SlotClaim {
  readonly id: string;
  /** In flight now, whatever the answer. */
  readonly running: number;
  /** To be in flight, `running` included. */
  readonly wanted: number;
  /** Allowed in all processes together. */
  readonly max: number;
}

/** The slots of a replica that died are free after this time (milliseconds). */
export const SLOTS_HOLD: Duration = 3_000;

/**
 * The port for what is limited over all replicas. Nothing rejects: while Redis is away, a replica grants its share.
 * Calls to upstreams never exceed a limit in any window; clients exceed theirs by at most a tenth.
 */
export interface Limits {
  take(claim: LimitClaim): MaybePromise<LimitAnswer>;
  /** A call that was granted a while ago is made only now, and counts from now on: in all windows, full or not. */
  recount(claim: LimitClaim): void;
  /** How many requests may be in flight here. Has to be claimed again within {@link SLOTS_HOLD}. */
  hold(claim: SlotClaim): MaybePromise<number>;
}

/** Limits that are remembered: upstreams times endpoints; clients; addresses, which cannot push out the others. */
const MOST: Readonly<Record<LimitKind, number>> = { upstream: 4_096, client: 50_000, address: 50_000 };

/** State of each limit, by kind and id; the least recently used are forgotten. */
export class LimitTable<State extends {}> {
  private readonly tables: Readonly<Record<LimitKind, LRUCache<string, State>>>;
  private readonly create: (claim: LimitClaim) => State;

  constructor(create: (claim: LimitClaim) => State) {
    this.create = create;
    // A size of one each, not `max`, which takes the memory of all at the start.
    const table = (kind: LimitKind) => new LRUCache<string, State>({ maxSize: MOST[kind], sizeCalculation: () => 1 });
    this.tables = { upstream: table("upstream"), client: table("client"), address: table("address") };
  }

  of(claim: LimitClaim): State {
    const table = this.tables[claim.kind];
    let state = table.get(claim.id);
    if (state === undefined) table.set(claim.id, (state = this.create(claim)));
    return state;
  }

  *all(): Generator<State> {
    for (const table of Object.values(this.tables)) yield* table.values();
  }
}

/** What calls are counted under. */
export type WindowName = Pick<LimitWindow, "name" | "per">;

/** Windows of one limit. Reloads bring other lengths. */
export const MOST_WINDOWS = 6;

/**
 * The windows of one limit. Windows of one name differ by their lengths, which reloads bring: a new one goes on with the
 * calls of the longest, and when there are too many, the one of its name that was made first goes.
 */
export class Windows<Window extends {}> {
  private readonly names: WindowName[] = [];
  private readonly windows: Window[] = [];
  private readonly create: (name: WindowName, longest: Window | undefined) => Window;

  constructor(create: (name: WindowName, longest: Window | undefined) => Window) {
    this.create = create;
  }

  get all(): readonly Window[] {
    return this.windows;
  }

  of({ name, per }: WindowName): Window {
    let first = -1;
    let longest = -1;
    for (let i = 0; i < this.names.length; i += 1) {
      if (this.names[i]!.name !== name) continue;
      if (this.names[i]!.per === per) return this.windows[i]!;
      if (first === -1) first = i;
      if (longest === -1 || this.names[i]!.per > this.names[longest]!.per) longest = i;
    }
    const window = this.create({ name, per }, this.windows[longest]);
    if (this.names.length === MOST_WINDOWS) {
      this.names.splice(Math.max(0, first), 1);
      this.windows.splice(Math.max(0, first), 1);
    }
    this.names.push({ name, per });
    this.windows.push(window);
    return window;
  }

  /** All windows of the names of a claim: its call counts in each, for a reload may bring back a length from before. */
  named(claimed: readonly Pick<WindowName, "name">[]): Window[] {
    return this.windows.filter((_, i) => claimed.some(({ name }) => name === this.names[i]!.name));
  }
}

/** Windows with nothing but calls. */
export function slidingWindows(clock: Clock): Windows<SlidingWindow> {
  return new Windows(({ per }, longest) => new SlidingWindow(per).takeOver(longest, clock.steadyNow()));
}

export const GRANTED_AT_ONCE: readonly Duration[] = [];

/** Takes a call out of windows that are this process's alone. */
function takeHere(all: Windows<SlidingWindow>, limits: LimitClaim["windows"], now: Instant): LimitAnswer {
  const windows = limits.map((each) => all.of(each));
  let granted = true;
  for (const [i, { requests }] of limits.entries()) if (windows[i]!.count(now) >= requests) granted = false;
  if (granted) for (const window of all.named(limits)) window.add(now);
  return {
    granted,
    used: windows.map((window) => window.count(now)),
    retryIn: granted ? GRANTED_AT_ONCE : limits.map(({ requests }, i) => windows[i]!.freeIn(now, requests)),
  };
}

/** The limits of a process that shares nothing. */
export class LocalLimits implements Limits {
  private readonly clock: Clock;
  private readonly table = new LimitTable(() => slidingWindows(this.clock));

  constructor(clock: Clock) {
    this.clock = clock;
  }

  take(claim: LimitClaim): LimitAnswer {
    return takeHere(this.table.of(claim), claim.windows, this.clock.steadyNow());
  }

  recount(claim: LimitClaim): void {
    const all = this.table.of(claim);
    for (const each of claim.windows) all.of(each);
    for (const window of all.named(claim.windows)) window.add(this.clock.steadyNow());
  }

  hold({ running, wanted, max }: SlotClaim): number {
    return Math.max(running, Math.min(wanted, max));
  }
}
