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
const LEAST_TRIP: Duration = 2;
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

  /** An answer that is here sooner is to no question of ours; 0 where that cannot be known. */
  get leastAnswerTime(): Duration {
    const least = Math.min(...this.trips.map((trip) => trip.least));
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

/** One request over a connection, and what was made of its answer. */
export class Exchange {
  /** The id that it asks for, or else its path. */
  readonly name: string;
  private readonly log: StepLog;
  private readonly forgets: (() => void)[] = [];

  constructor(log: StepLog, name: string) {
    this.log = log;
    this.name = name;
  }

  /** `forget` is called should the answer turn out to be another request's. */
  whenStray(forget: () => void): void {
    if (this.log.isOutOfStep) forget();
    else if (this.log.holds(this)) this.forgets.push(forget);
  }

  /** The answer named what was asked for: what came before it was in step. */
  confirm(): void {
    this.log.confirm(this);
  }

  /** The connection was out of step, so that this may be no answer. */
  get isOutOfStep(): boolean {
    return this.log.isOutOfStep;
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

  /** Whether `text`, which does not name what was asked for, names what was asked before over the same connection. */
  namesAnother(text: string): boolean {
    return this.log.namesAnother(this, text);
  }

  forget(): void {
    for (const forget of this.forgets.splice(0)) forget();
  }
}

/** What came over one connection since it was last surely in step. */
export class StepLog {
  readonly carrier: { close(): void; leaveStep(fault: StepFault): void };
  isOutOfStep = false;
  /** In the order in which they were asked. */
  private unsure: Exchange[] = [];

  constructor(carrier: StepLog["carrier"]) {
    this.carrier = carrier;
  }

  begin(path: string): Exchange {
    const exchange = new Exchange(this, idIn(path) ?? path);
    this.unsure.push(exchange);
    return exchange;
  }

  /** Too much would have to be forgotten if it was out of step. */
  get isFull(): boolean {
    return this.unsure.length >= MOST_UNSURE;
  }

  holds(exchange: Exchange): boolean {
    return this.unsure.includes(exchange);
  }

  /**
   * All up to this one was in step, unless the same was asked before, and this answer could be that one's. It stays, for
   * what is asked next may be answered by it again.
   */
  confirm(exchange: Exchange): void {
    const at = this.unsure.indexOf(exchange);
    if (at <= 0 || this.unsure.slice(0, at).some(({ name }) => name === exchange.name)) return;
    this.unsure = this.unsure.slice(at);
  }

  /** The answer to what was asked last named it. */
  confirmLatest(): void {
    const latest = this.unsure.at(-1);
    if (latest !== undefined) this.confirm(latest);
  }

  namesAnother({ name: own }: Exchange, text: string): boolean {
    return !namesId(text, own) && this.unsure.some(({ name }) => name !== own && namesId(text, name));
  }

  /** An answer was to another request: which of them is not known. */
  forgetAll(): void {
    this.isOutOfStep = true;
    for (const exchange of this.unsure.splice(0)) exchange.forget();
  }
}

/** The decoded id of the instrument, transfer or allocation that a path asks for. */
function idIn(path: string): string | undefined {
  const id = /\/(?:instruments|transfer-instruction\/v\d+|allocations\/v\d+)\/([^/?]+)/.exec(path)?.[1];
  return id === undefined ? undefined : decodeURIComponent(id);
}

const LEAST_ID = 4;

/** Whether a text, as of an error, names this id, and not only a word that begins or ends with it. */
function namesId(text: string, id: string): boolean {
  if (id.length < LEAST_ID || id.startsWith("/")) return false;
  const at = text.indexOf(id);
  return at !== -1 && !/[\w-]/.test((text[at - 1] ?? "") + (text[at + id.length] ?? ""));
}
