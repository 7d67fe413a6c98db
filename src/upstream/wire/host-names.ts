import { ADDRCONFIG, lookup as askSystem, type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { LRUCache } from "lru-cache";
import { type Clock, type Duration, systemClock, valueWithin } from "../../clock.ts";

/** Of one name, in the order in which they are tried. */
type Addresses = readonly LookupAddress[];

/** Names of which is known where they led. */
const MOST_KNOWN = 1_000;

/** How long a connection waits for an answer about a name that led somewhere before. */
const MAX_WAIT: Duration = 500;

/** The name server of a name that took longer is silent. */
const SILENT_AFTER: Duration = 5_000;

/**
 * Looks host names up for all connections of the process. Node asks the system, whose calls cannot be cut short and have two
 * threads between them: two names whose servers are silent would hold up all others for ever. So each name is asked for once
 * at a time, those with silent servers one after the other, and where an answer does not come, what came last stands. Nobody
 * is misled by that: no connection carries a call before the node at its end has proved itself.
 */
export class HostNames {
  private readonly clock: Clock;
  private readonly resolve: (hostname: string) => Promise<Addresses>;
  private readonly known = new LRUCache<string, Addresses>({ max: MOST_KNOWN });
  private readonly silent = new LRUCache<string, true>({ max: MOST_KNOWN });
  private readonly running = new Map<string, Promise<Addresses>>();
  /** The last lookup of a name whose server is silent. */
  private turn: Promise<unknown> = Promise.resolve();

  constructor(clock: Clock, resolve: (hostname: string) => Promise<Addresses>) {
    this.clock = clock;
    this.resolve = resolve;
  }

  /** Rejects with what the system says of a name that leads nowhere. */
  async addressesOf(hostname: string): Promise<Addresses> {
    const running = this.running.get(hostname) ?? this.begin(hostname);
    const known = this.known.get(hostname);
    if (known === undefined) return running;
    try {
      return (await valueWithin(running, MAX_WAIT, this.clock)) ?? known;
    } catch (error) {
      // That there is no such name is an answer, that none can be had is not.
      if ((error as NodeJS.ErrnoException).code === "EAI_AGAIN") return known;
      throw error;
    }
  }

  private begin(hostname: string): Promise<Addresses> {
    const isSilent = this.silent.has(hostname);
    const asked = isSilent ? this.turn.then(() => this.ask(hostname)) : this.ask(hostname);
    const running = asked.finally(() => this.running.delete(hostname));
    this.running.set(hostname, running);
    const over = running.catch(() => undefined);
    if (isSilent) this.turn = over;
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
export const lookUp: LookupFunction = (hostname, { all }, done) => {
  names.addressesOf(hostname).then(
    (addresses) => {
      if (all === true) done(null, [...addresses]);
      else done(null, addresses[0]!.address, addresses[0]!.family);
    },
    (error: NodeJS.ErrnoException) => done(error, ""),
  );
};
