import type { Clock, Duration, Instant } from "../clock.ts";
import { type SharedLimits, SLOTS_HOLD } from "../coordination/shared-limits.ts";
import type { Slot } from "./client.ts";

/** All processes together let so many run beyond what they hold, and tell later. */
const CREDIT = 0.1;

/** Slots that are not used any more are given back after this time: the client's next request mostly wants one. */
const GIVE_BACK_AFTER: Duration = 5;

/** A request that finds no slot waits for one that another process is giving back, and asks again for so long. */
const ASK_AGAIN_AFTER: Duration = 25;
const ASK_FOR: Duration = 75;

/** After a refusal the client is refused without asking for as long. */
const REFUSE_FOR: Duration = 20;

const CLAIM_AGAIN_EVERY: Duration = SLOTS_HOLD / 3;

/** Requests of one client that wait for slots. */
const MAX_WAITING = 1_000;

interface Waiting {
  readonly decide: (slot: Slot | undefined) => void;
  readonly until: Instant;
}

/** The requests of one client that run here. */
interface Running {
  readonly id: string;
  max: number;
  running: number;
  /** Slots that this process holds of those that all share. */
  held: number;
  waiting: Waiting[];
  refusedUntil: Instant;
  /** What is shared is being asked. */
  isAsking: boolean;
  /** It will be asked. */
  isDue: boolean;
}

/** Where there is no limit. */
const UNLIMITED: Slot = { leave: () => {} };

/**
 * How many requests of a client run at once. A process that is alone counts them; several hold slots of what they share,
 * for as long as they claim them again. While that is away each has its share, at least one.
 */
export class ConcurrencyLimits {
  private readonly shared: SharedLimits | undefined;
  private readonly clock: Clock;
  /** Clients of which a request runs or waits here, or a slot is held. */
  private readonly clients = new Map<string, Running>();
  private isClaiming = false;

  constructor(shared: SharedLimits | undefined, clock: Clock) {
    this.shared = shared;
    this.clock = clock;
  }

  /** @param max undefined: no limit */
  enter(id: string, max: number | undefined): Slot | undefined | Promise<Slot | undefined> {
    if (max === undefined) return UNLIMITED;
    const client = this.of(id, max);
    if (this.shared === undefined) return client.running < max ? this.run(client) : undefined;
    if (this.shared.phase !== "counted") return this.enterShare(client);
    if (client.running < client.held) return this.run(client);
    if (client.running < client.held + this.credit(max)) {
      this.soon(client);
      return this.run(client);
    }
    if (this.clock.now() < client.refusedUntil || client.waiting.length >= MAX_WAITING) return undefined;
    return new Promise((decide) => {
      client.waiting.push({ decide, until: this.clock.now() + ASK_FOR });
      this.ask(client);
    });
  }

  /** Tells what is shared, which is there again, of all that runs here. */
  report(): void {
    for (const client of this.clients.values()) this.ask(client);
  }

  private of(id: string, max: number): Running {
    let client = this.clients.get(id);
    if (client === undefined) {
      client = { id, max, running: 0, held: 0, waiting: [], refusedUntil: -Infinity, isAsking: false, isDue: false };
      this.clients.set(id, client);
      if (this.shared !== undefined) this.claimAgain();
    }
    client.max = max;
    return client;
  }

  private credit(max: number): number {
    return Math.floor((max * CREDIT) / this.shared!.processes);
  }

  private enterShare(client: Running): Slot | undefined {
    const share = Math.max(1, this.shared!.shareOf(client.max));
    // What it held is free by itself after a while, and has to be claimed anew.
    client.held = 0;
    if (client.running < share) return this.run(client);
    this.forget(client);
    return undefined;
  }

  private run(client: Running): Slot {
    client.running += 1;
    let isRunning = true;
    return {
      leave: () => {
        if (!isRunning) return;
        isRunning = false;
        this.leave(client);
      },
    };
  }

  private leave(client: Running): void {
    client.running -= 1;
    if (this.shared !== undefined && client.running < client.held) {
      const next = client.waiting.shift();
      if (next !== undefined) next.decide(this.run(client));
      else this.soon(client);
    }
    this.forget(client);
  }

  private forget(client: Running): void {
    const { running, held, waiting, isAsking } = client;
    if (running === 0 && held === 0 && waiting.length === 0 && !isAsking) this.clients.delete(client.id);
  }

  /** Asks in a moment, for all that happens until then. */
  private soon(client: Running): void {
    if (client.isDue) return;
    client.isDue = true;
    this.clock.after(client.waiting.length > 0 ? ASK_AGAIN_AFTER : GIVE_BACK_AFTER, () => {
      client.isDue = false;
      this.ask(client);
    });
  }

  /** Claims what runs and waits here, one question at a time. */
  private ask(client: Running): void {
    if (client.isAsking) return;
    client.isAsking = true;
    const askOnce = async (): Promise<void> => {
      const asking = client.waiting.length;
      const { id, running, max } = client;
      const wanted = Math.min(running + asking, max);
      // What is given back may be another process's before the reply is here.
      client.held = Math.min(client.held, wanted);
      const held = await this.shared!.holdSlots(id, { running, wanted, max });
      client.isAsking = false;
      if (held === undefined) this.decideByShare(client);
      else this.decide(client, held, asking);
      this.forget(client);
    };
    void askOnce();
  }

  /** `asking`: of those that wait, so many were asked for. */
  private decide(client: Running, held: number, asking: number): void {
    client.held = held;
    const waiting = client.waiting.splice(0, asking);
    while (waiting.length > 0 && client.running < held) waiting.shift()!.decide(this.run(client));
    const now = this.clock.now();
    const again = waiting.filter(({ until }) => now < until);
    if (again.length < waiting.length) client.refusedUntil = now + REFUSE_FOR;
    for (const { until, decide } of waiting) if (now >= until) decide(undefined);
    const hasNew = client.waiting.length > 0;
    client.waiting.unshift(...again);
    if (again.length === 0 && hasNew) this.ask(client);
    else if (again.length > 0 || client.running < held) this.soon(client);
  }

  private decideByShare(client: Running): void {
    const share = Math.max(1, this.shared!.shareOf(client.max));
    for (const { decide } of client.waiting.splice(0)) decide(client.running < share ? this.run(client) : undefined);
    client.held = 0;
  }

  /** Claims what is held before it is free by itself. */
  private claimAgain(): void {
    if (this.isClaiming) return;
    this.isClaiming = true;
    this.clock.after(CLAIM_AGAIN_EVERY, () => {
      this.isClaiming = false;
      this.report();
      if (this.clients.size > 0) this.claimAgain();
    });
  }
}
