import { ADDRCONFIG, lookup as askSystem, type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { LRUCache } from "lru-cache";
import { type Clock, type Duration, systemClock, valueWithin } from "./clock.ts";

/** Of one name, in the order in which they are tried. */
type Addresses = readonly LookupAddress[];

/** Names of which is known where they led. */
const MOST_KNOWN = 1_000;

/** How long a connection waits for an answer about a name that led somewhere before. */
const MAX_WAIT: Duration = 500;

/** The name server of a name that took longer is silent. */
const SILENT_AFTER: Duration = 5_000;

/** How long a stranger's name waits for its turn: who asked for it waits no longer. */
const MAX_TURN_WAIT: Duration = 5_000;

/** Lookups one after the other, in the order in which they came. */
class Turn {
  private last: Promise<unknown> = Promise.resolve();

  take(lookUp: () => Promise<Addresses>): Promise<Addresses> {
    const taken = this.last.then(lookUp);
    this.last = taken.catch(() => undefined);
    return taken;
  }
}

/**
 * Looks host names up for all connections of the process. Node asks the system, whose calls cannot be cut short and have two
 * threads between them: two names whose servers are silent would hold up all others for ever. So each name is asked for once
 * at a time, those with silent servers one after the other, those of strangers as well, and where an answer does not come,
 * what came last stands. Nobody is misled by that: no connection carries a call before the node at its end has proved itself,
 * an issuer shows its certificate, and Redis is where it was.
 */
export class HostNames {
  private readonly clock: Clock;
  private readonly resolve: (hostname: string) => Promise<Addresses>;
  private readonly known = new LRUCache<string, Addresses>({ max: MOST_KNOWN });
  private readonly silent = new LRUCache<string, true>({ max: MOST_KNOWN });
  private readonly running = new Map<string, Promise<Addresses>>();
  /** Of names whose servers are silent. */
  private readonly silentTurn = new Turn();
  private readonly strangersTurn = new Turn();

  constructor(clock: Clock, resolve: (hostname: string) => Promise<Addresses>) {
    this.clock = clock;
    this.resolve = resolve;
  }

  /** Rejects with what the system says of a name that leads nowhere. */
  addressesOf(hostname: string): Promise<Addresses> {
    return this.orKnown(hostname, this.running.get(hostname) ?? this.begin(hostname));
  }

  /** The same of a name that a stranger chose, who may have chosen a thousand with silent servers: they hold up their own. */
  addressesForStranger(hostname: string): Promise<Addresses> {
    const until = this.clock.now() + MAX_TURN_WAIT;
    const turn = this.silent.has(hostname) ? this.silentTurn : this.strangersTurn;
    const askInTime = async () => {
      if (this.clock.now() >= until) throw Object.assign(new Error("not looked up in time"), { code: "EAI_AGAIN" });
      return this.ask(hostname);
    };
    return this.orKnown(hostname, this.running.get(hostname) ?? turn.take(askInTime));
  }

  private async orKnown(hostname: string, asked: Promise<Addresses>): Promise<Addresses> {
    const known = this.known.get(hostname);
    if (known === undefined) return asked;
    try {
      return (await valueWithin(asked, MAX_WAIT, this.clock)) ?? known;
    } catch (error) {
      // That there is no such name is an answer, that none can be had is not.
      if ((error as NodeJS.ErrnoException).code === "EAI_AGAIN") return known;
      throw error;
    }
  }

  private begin(hostname: string): Promise<Addresses> {
    const ask = () => this.ask(hostname);
    const asked = this.silent.has(hostname) ? this.silentTurn.take(ask) : ask();
    const running = asked.finally(() => this.running.delete(hostname));
    this.running.set(hostname, running);
    return running;
  }

  private async ask(hostname: string): Promise<Addresses> {
    const beganAt = this.clock.now();
    try {
      const addresses = await this.resolve(hostname);
      this.known.set(hostname, addresses);
      return addresses;
    } finally {
      if (this.clock.now() - beganAt >= SILENT_AFTER) this.silent.set(hostname, true);
      else this.silent.delete(hostname);
    }
  }
}

/** Addresses of families that this machine has, as Node asks for connections: each other one would take time from these. */
function resolve(hostname: string): Promise<Addresses> {
  return new Promise((take, refuse) => {
    askSystem(hostname, { all: true, hints: ADDRCONFIG }, (error, addresses) => {
      if (error === null) take(addresses);
      else refuse(error);
    });
  });
}

const names = new HostNames(systemClock(), resolve);

/** As `dns.lookup`, in the place of which connections take it. */
export const lookUp = lookUpBy((hostname) => names.addressesOf(hostname));

/** The same for connections to what a stranger named and nobody has decided to use. */
export const lookUpForStranger = lookUpBy((hostname) => names.addressesForStranger(hostname));

function lookUpBy(addressesOf: (hostname: string) => Promise<Addresses>): LookupFunction {
  return (hostname, { all }, done) => {
    addressesOf(hostname).then(
      (addresses) => {
        if (all === true) done(null, [...addresses]);
        else done(null, addresses[0]!.address, addresses[0]!.family);
      },
      (error: NodeJS.ErrnoException) => done(error, ""),
    );
  };
}
