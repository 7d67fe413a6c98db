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

/** What came over a connection so long ago is held to have been in step. */
const DOUBTED: Duration = 1_000;
const MOST_ANSWERS = 1_000;

/** What came over one connection a moment ago, and has to be forgotten if that was out of step. */
export class RecentAnswers {
  private readonly clock: Clock;
  private answers: { readonly at: Instant; readonly forget: () => void }[] = [];
  private isOver = false;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** An answer came; `forget` is called should it be another's. */
  add(forget: () => void): void {
    if (this.isOver) return forget();
    const now = this.clock.now();
    if (this.answers.length === MOST_ANSWERS || (this.answers[0]?.at ?? now) < now - DOUBTED) this.trim(now);
    this.answers.push({ at: now, forget });
  }

  /** The connection was out of step. */
  forgetAll(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.trim(this.clock.now());
    for (const { forget } of this.answers.splice(0)) forget();
  }

  private trim(now: Instant): void {
    this.answers = this.answers.filter(({ at }) => at >= now - DOUBTED).slice(-MOST_ANSWERS + 1);
  }
}
