import { type Clock, type Duration, sleep } from "../clock.ts";
import { type Limits, SLOTS_HOLD } from "../sharing/limits.ts";
import type { Slot } from "./client.ts";

/** A request that finds no slot asks again, for another replica may be giving one back. */
const MOST_TRIES = 3;
const ASK_AGAIN_AFTER: Duration = 25;

/** After a refusal the client is refused without asking for this long. */
const REFUSE_FOR: Duration = 20;

const CLAIM_AGAIN_EVERY: Duration = SLOTS_HOLD / 3;

/** Requests of one client that ask for slots. */
const MOST_ASKING = 1_000;

/** The requests of one client that are in flight here. */
interface InFlight {
  readonly id: string;
  max: number;
  running: number;
  asking: number;
  /** Slots that this replica holds of those that all share. */
  held: number;
  refusedUntil: number;
  isGivingBack: boolean;
}

/** Where there is no limit. */
export const UNLIMITED: Slot = { leave: () => {} };

/**
 * How many requests of a client are in flight. Replicas hold slots of what they share and claim them again as long as
 * they need them: a share for each would refuse a client that always meets the same replica.
 */
export class ConcurrencyLimits {
  private readonly limits: Pick<Limits, "hold">;
  private readonly clock: Clock;
  /** Clients of which a request is in flight or asks here, or a slot is held. */
  private readonly clients = new Map<string, InFlight>();
  private isClaiming = false;

  constructor(limits: Pick<Limits, "hold">, clock: Clock) {
    this.limits = limits;
    this.clock = clock;
  }

  /** @param max undefined: no limit */
  enter(id: string, max: number | undefined): Slot | undefined | Promise<Slot | undefined> {
    if (max === undefined) return UNLIMITED;
    const client = this.of(id, max);
    if (client.running < client.held) return this.run(client);
    if (this.clock.now() < client.refusedUntil || client.asking >= MOST_ASKING) return undefined;
    client.asking += 1;
    const held = this.claim(client);
    if (held instanceof Promise) return held.then((slots) => this.enterAt(client, slots));
    client.asking -= 1;
    return this.runWithin(client, held);
  }

  /** {@link enter} with the slots that were held when it was asked first. */
  private async enterAt(client: InFlight, first: number): Promise<Slot | undefined> {
    let held = first;
    for (let tries = 1; tries < MOST_TRIES && client.running >= held; tries += 1) {
      await sleep(ASK_AGAIN_AFTER, this.clock);
      held = await this.claim(client);
    }
    client.asking -= 1;
    const slot = this.runWithin(client, held);
    if (slot === undefined) client.refusedUntil = this.clock.now() + REFUSE_FOR;
    return slot;
  }

  private runWithin(client: InFlight, held: number): Slot | undefined {
    client.held = held;
    if (client.running < held) return this.run(client);
    this.forget(client);
    return undefined;
  }

  private run(client: InFlight): Slot {
    client.running += 1;
    let isRunning = true;
    return {
      leave: () => {
        if (!isRunning) return;
        isRunning = false;
        client.running -= 1;
        void this.giveBack(client);
      },
    };
  }

  /** Claims what is needed here. What is given back may be another replica's before the answer is here. */
  private claim(client: InFlight): number | Promise<number> {
    const { id, running, asking, max } = client;
    const wanted = running + asking;
    client.held = Math.min(client.held, wanted);
    return this.limits.hold({ id, running, wanted, max });
  }

  private async giveBack(client: InFlight): Promise<void> {
    if (client.isGivingBack) return;
    client.isGivingBack = true;
    while (client.running + client.asking < client.held) {
      const held = this.claim(client);
      client.held = held instanceof Promise ? await held : held;
    }
    client.isGivingBack = false;
    this.forget(client);
  }

  private of(id: string, max: number): InFlight {
    let client = this.clients.get(id);
    if (client === undefined) {
      client = { id, max, running: 0, asking: 0, held: 0, refusedUntil: -Infinity, isGivingBack: false };
      this.clients.set(id, client);
      this.claimAgain();
    }
    client.max = max;
    return client;
  }

  private forget(client: InFlight): void {
    const { id, running, asking, held } = client;
    // Another one may be known by now: this one was forgotten while its last answer was awaited.
    const isKnown = this.clients.get(id) === client;
    if (isKnown && running === 0 && asking === 0 && held === 0) this.clients.delete(id);
  }

  /** Claims what is held before it is free by itself. */
  private claimAgain(): void {
    if (this.isClaiming) return;
    this.isClaiming = true;
    this.clock.after(CLAIM_AGAIN_EVERY, () => {
      this.isClaiming = false;
      for (const client of this.clients.values()) void this.renew(client);
      if (this.clients.size > 0) this.claimAgain();
    });
  }

  private async renew(client: InFlight): Promise<void> {
    const held = this.claim(client);
    client.held = held instanceof Promise ? await held : held;
    this.forget(client);
  }
}
