import type { Clock, Duration, Instant } from "../../clock.ts";

/**
 * Why a connection is out of step. `unasked`: bytes behind an answer, or without a question; `early`: an answer sooner than
 * any could be here; `another`: an answer to another question than was asked.
 */
export type StepFault = "unasked" | "early" | "another";

/** A node is remembered to have been out of step for so long. */
const REMEMBERED: Duration = 3_600_000;
/** Of a node that was out of step so often within that time, no connection carries a second call. */
const MOST_EVENTS = 3;

/** Seconds with handshakes whose shortest round trips are remembered, and how many have to be known. */
const KEPT_TRIPS = 8;
const LEAST_TRIPS = 4;
const SECOND: Duration = 1_000;
/** Below this the clock, and a busy event loop, say more than the way. */
const LEAST_TRIP: Duration = 5;
/** An answer that took less than this share of the shortest round trip was not asked for. */
const TRIP_SHARE = 0.5;

/** How often the answers of one node were out of step, and how far away it is. */
export class StepRecord {
  /** Since the start. */
  total = 0;
  private readonly clock: Clock;
  private readonly onEvent: (fault: StepFault) => void;
  /** The latest {@link MOST_EVENTS} events. */
  private events: Instant[] = [];
  private trips: { readonly second: number; readonly least: Duration }[] = [];

  constructor(clock: Clock, onEvent: (fault: StepFault) => void) {
    this.clock = clock;
    this.onEvent = onEvent;
  }

  note(fault: StepFault): void {
    this.total += 1;
    this.events = [...this.events, this.clock.now()].slice(-MOST_EVENTS);
    this.onEvent(fault);
  }

  /** It was out of step within the hour: a POST goes over no connection that has carried a call. */
  get isDoubtful(): boolean {
    return this.recent().length > 0;
  }

  /** It was out of step three times within the hour: no connection carries a second call, and it is used last. */
  get isDistrusted(): boolean {
    return this.recent().length >= MOST_EVENTS;
  }

  /** A TCP handshake took so long. Those of one second count as one: what held one up held up all. */
  noteTrip(trip: Duration): void {
    const second = Math.floor(this.clock.now() / SECOND);
    const last = this.trips.at(-1);
    const isNew = last?.second !== second;
    const least = isNew ? trip : Math.min(trip, last.least);
    this.trips = [...this.trips.slice(isNew ? 1 - KEPT_TRIPS : -KEPT_TRIPS, isNew ? undefined : -1), { second, least }];
  }

  /**
   * An answer that is here sooner is to no question of ours; 0 where that cannot be known. `own` is the trip of the connection
   * it comes over: one name may lead to machines near and far.
   */
  leastAnswerTime(own: Duration): Duration {
    const least = Math.min(own, ...this.trips.map((trip) => trip.least));
    // A loop that was held up makes a trip look longer: the shortest of several is none of those.
    return this.trips.length < LEAST_TRIPS || least < LEAST_TRIP ? 0 : least * TRIP_SHARE;
  }

  /** What was learned under an earlier configuration. */
  inherit(old: StepRecord): void {
    this.total = old.total;
    this.events = old.events;
    this.trips = old.trips;
  }

  private recent(): readonly Instant[] {
    if (this.events.length === 0) return this.events;
    const since = this.clock.now() - REMEMBERED;
    return this.events.filter((at) => at > since);
  }
}

/** A connection over which more came since it was last surely in step is not used again. */
const MOST_UNSURE = 500;
/** Requests whose ids are looked for in the text of a 404. */
const MOST_RECENT = 32;
/** Shorter ones are not looked for, but for the one that was asked for: any text may have them. */
const LEAST_ID = 4;

/** One request over a connection, and what was made of its answer. */
export class Exchange {
  readonly path: string;
  readonly number: number;
  /** The same was asked before, since the connection was surely in step: this answer could be that one's. */
  readonly isRepeated: boolean;
  private readonly log: StepLog;
  private readonly forgets: (() => void)[] = [];

  constructor(log: StepLog, about: Pick<Exchange, "path" | "number" | "isRepeated">) {
    this.log = log;
    this.path = about.path;
    this.number = about.number;
    this.isRepeated = about.isRepeated;
  }

  /** The connection was out of step, so that this may be no answer. */
  get isOutOfStep(): boolean {
    return this.log.isOutOfStep;
  }

  /** `forget` is called should the answer turn out to be another request's. */
  whenStray(forget: () => void): void {
    if (this.log.isOutOfStep) return forget();
    this.forgets.push(forget);
    this.log.keep(this);
  }

  /** The answer named what was asked for: what came before it was in step. */
  confirm(): void {
    this.log.confirm(this);
  }

  /** Whether `text`, which does not name what was asked for, names what was asked before over the same connection. */
  namesAnother(text: string): boolean {
    return this.log.namesAnother(this, text);
  }

  /** No other answer comes over that connection. */
  close(): void {
    this.log.carrier.close();
  }

  /** The answer was to another request. */
  leaveStep(fault: StepFault): void {
    this.log.carrier.leaveStep(fault);
  }

  /** The same, should it be so; it may have been the node's own way. */
  forgetAll(): void {
    this.log.forgetAll();
  }

  forget(): void {
    for (const forget of this.forgets.splice(0)) forget();
  }
}

/** What came over one connection since it was last surely in step. */
export class StepLog {
  readonly carrier: { close(): void; leaveStep(fault: StepFault): void };
  isOutOfStep = false;
  private count = 0;
  /** The number of the exchange up to which it was surely in step. */
  private sureUpTo = 0;
  private latest: Exchange | undefined;
  /** Of what was asked for and can be named by its answer: the number of the last request for it, the earliest first. */
  private readonly asked = new Map<string, number>();
  /** The exchanges that brought what is kept. */
  private readonly kept = new Set<Exchange>();
  private readonly recent: string[] = [];

  constructor(carrier: StepLog["carrier"]) {
    this.carrier = carrier;
  }

  begin(method: string, path: string): Exchange {
    this.count += 1;
    const isRepeated = this.asked.has(path);
    if (method === "GET") {
      this.asked.delete(path);
      this.asked.set(path, this.count);
    }
    this.recent[this.count % MOST_RECENT] = path;
    this.latest = new Exchange(this, { path, number: this.count, isRepeated });
    return this.latest;
  }

  /** Too much would have to be forgotten if it was out of step. */
  get isFull(): boolean {
    return this.asked.size >= MOST_UNSURE || this.kept.size >= MOST_UNSURE;
  }

  keep(exchange: Exchange): void {
    if (exchange.number >= this.sureUpTo) this.kept.add(exchange);
  }

  /** All up to this one was in step, unless the same was asked before. It stays itself: it could be answered once more. */
  confirm(exchange: Exchange): void {
    if (exchange.isRepeated) return;
    this.sureUpTo = Math.max(this.sureUpTo, exchange.number);
    for (const [path, number] of this.asked) {
      if (number >= exchange.number) break;
      this.asked.delete(path);
    }
    for (const each of this.kept) if (each.number < exchange.number) this.kept.delete(each);
  }

  /** The answer to what was asked last named it. */
  confirmLatest(): void {
    this.latest?.confirm();
  }

  namesAnother({ path }: Exchange, text: string): boolean {
    const own = idIn(path);
    if (own !== undefined && namesId(text, own)) return false;
    return this.recent.some((each) => {
      const id = each === path ? undefined : idIn(each);
      return id !== undefined && id.length >= LEAST_ID && namesId(text, id);
    });
  }

  /** An answer was to another request: which of them is not known. */
  forgetAll(): void {
    this.isOutOfStep = true;
    for (const exchange of this.kept) exchange.forget();
    this.kept.clear();
  }
}

/** The decoded id of the instrument, transfer or allocation that a path asks for. Clients write its query, and other paths. */
function idIn(path: string): string | undefined {
  const id = /^[^?]*?\/(?:instruments|transfer-instruction\/v\d+|allocations\/v\d+)\/([^/?]+)/.exec(path)?.[1];
  if (id === undefined) return undefined;
  try {
    return decodeURIComponent(id);
  } catch {
    return undefined;
  }
}

/** Whether a text, as of an error, names this id, and not only words that begin or end with it. */
function namesId(text: string, id: string): boolean {
  for (let at = text.indexOf(id); at !== -1; at = text.indexOf(id, at + 1)) {
    if (!/[\w-]/.test((text[at - 1] ?? "") + (text[at + id.length] ?? ""))) return true;
  }
  return false;
}
