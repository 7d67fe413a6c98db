import type { Clock, Duration, Instant } from "../clock.ts";

/** Least time between two events of a wrong admin: each purges the registry. */
const FORGET_EVERY: Duration = 60_000;

/** Events of what nodes say of their admin. */
export interface AdminEvents {
  /** The first node has told it. */
  readonly onLearned: (party: string) => void;
  /** Calls went to another registry: what was stored of this one may be that one's. */
  readonly onWrong: (party: string) => void;
}

/** Whose registry an upstream is: as configured, or as the first node that answered named it. */
export class Admin {
  /** Undefined: to be learned. */
  readonly configured: string | undefined;
  private learned: string | undefined;
  private readonly events: AdminEvents;
  private readonly clock: Clock;
  private forgotAt: Instant = -Infinity;

  /** @param known its `learned` is what was learned before a reload */
  constructor(
    known: { configured: string | undefined; learned: string | undefined },
    events: AdminEvents,
    clock: Clock,
  ) {
    this.configured = known.configured;
    this.learned = known.learned;
    this.events = events;
    this.clock = clock;
  }

  get party(): string | undefined {
    return this.configured ?? this.learned;
  }

  /** Whether a node that names this party is this registry's. Where no party is known, this one is learned. */
  accepts(named: string): boolean {
    if (this.party === undefined) {
      this.learned = named;
      this.events.onLearned(named);
    }
    return named === this.party;
  }

  /** Notes that a node that carried calls names another party. */
  noteWrong(): void {
    const now = this.clock.now();
    if (this.party === undefined || now - this.forgotAt < FORGET_EVERY) return;
    this.forgotAt = now;
    this.events.onWrong(this.party);
  }
}
