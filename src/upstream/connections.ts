import type { LookupAddress } from "node:dns";
import type { Clock, Duration, Instant } from "../clock.ts";
import { Connection, holds, MOST_IDLE, type Proof } from "./connection.ts";
import { Dialer, type Target } from "./socket.ts";

/** Closed within this behind its info, with nothing carried since. */
const BEHIND_INFO: Duration = 100;
const GRACE: Duration = 1_000;
/** An address at which a call failed comes last for so long. */
const AVOIDED: Duration = 10_000;
const MOST_PROOFS = 64;

/** The connections to a node: idle ones are kept, and forgotten when they close; and what is known of its addresses. */
export class Connections {
  readonly target: Target;
  readonly dialer: Dialer;
  private readonly clock: Clock;
  private readonly idle: Connection[] = [];
  private readonly proofs = new Map<string, Proof>();
  /** Of the node's name, when it was last looked up. */
  private addresses: readonly string[] = [];
  private avoided = { address: "", until: -Infinity };
  private hasCarried = false;
  isClosed = false;

  constructor(target: Target, clock: Clock) {
    this.target = target;
    this.clock = clock;
    this.dialer = new Dialer(target, (addresses) => this.order(addresses));
  }

  /** A proxy hides which address answers: each connection is proved by itself. */
  private get isProxied(): boolean {
    return this.target.httpProxy !== undefined;
  }

  get hasIdle(): boolean {
    return this.idle.length > 0;
  }

  /** An idle connection whose proof holds. The last one used comes first, so that the others grow old and are closed. */
  take(proofEvery: Duration): Connection | undefined {
    const now = this.clock.now();
    const isUsable = ({ proof }: Connection): boolean => holds(proof, now, proofEvery);
    const isGood = (each: Connection): boolean => isUsable(each) && !this.isAvoided(each.address, now);
    let at = this.idle.findLastIndex(isGood);
    if (at === -1) at = this.idle.findLastIndex(isUsable);
    return at === -1 ? undefined : this.idle.splice(at, 1)[0];
  }

  /** A new connection. Whether it may carry a call, its proof says: {@link holds}. Rejects with what the socket says. */
  async open(): Promise<Connection> {
    const socket = await this.dialer.open();
    const proof = this.proofOf(socket.remoteAddress ?? "");
    const connection = new Connection(socket, this.target.origin, proof);
    proof.open += 1;
    // undici listens from the first request on.
    socket.on("error", () => undefined);
    // It closes what grows old, but knows of a connection from the first request on, too.
    const cancelTimer = this.clock.after(MOST_IDLE, () => connection.wasUsed || connection.close());
    socket.once("close", () => {
      cancelTimer();
      this.forget(connection);
    });
    return connection;
  }

  /** Takes a connection back whose answer came complete, or that nothing was asked over. */
  give(connection: Connection): void {
    if (this.isClosed) connection.close();
    else if (connection.isOpen) this.idle.push(connection);
  }

  /** A call goes over this connection. */
  carry({ proof }: Connection): void {
    proof.hasCarried = true;
    this.hasCarried = true;
  }

  /** Calls may have gone to whoever is at the other end: through a proxy, which hides who that is, over any connection. */
  mayHaveCarried({ proof }: Connection): boolean {
    return proof.hasCarried || (this.isProxied && this.hasCarried);
  }

  /** A call failed at its address: the next ones meet another, where there is one. */
  avoid({ address }: Connection): void {
    this.avoided = { address, until: this.clock.now() + AVOIDED };
  }

  /** The node's name has several addresses: what hangs at one may go at another. */
  get hasSeveral(): boolean {
    return this.goodAddresses().length > 1;
  }

  /** The node's name has another address, at which an info may be had. */
  hasOtherThan(address: string): boolean {
    return this.goodAddresses().some((each) => each !== address);
  }

  /** Calls that run end as they do; no connection outlives them. */
  close(): void {
    this.isClosed = true;
    for (const connection of this.idle.splice(0)) connection.close();
  }

  /** The info of this connection named the admin just now. */
  prove(connection: Connection): void {
    const { proof } = connection;
    const now = this.clock.now();
    connection.infoAt = now;
    proof.shunnedUntil = -Infinity;
    proof.isAnothers = false;
    if (proof.open > 0) proof.at = now;
    else this.believe(proof, now);
  }

  /** No info was to be had at the address of this connection, or (`isAnothers`) another registry's. */
  shun({ proof, address }: Connection, until: Instant, isAnothers: boolean): void {
    proof.at = -Infinity;
    proof.graceUntil = -Infinity;
    proof.shunnedUntil = until;
    proof.isAnothers = isAnothers;
    if (isAnothers) proof.hasCarried = this.hasCarried = false;
    for (const each of this.idle.filter((idle) => idle.address === address)) each.close();
  }

  private proofOf(address: string): Proof {
    const known = this.isProxied ? undefined : this.proofs.get(address);
    if (known !== undefined) return known;
    const never = -Infinity;
    const proof: Proof = {
      at: never,
      open: 0,
      graceUntil: never,
      shunnedUntil: never,
      isAnothers: false,
      hasCarried: false,
      asking: undefined,
    };
    if (this.isProxied) return proof;
    for (const [key, { open }] of this.proofs)
      if (open === 0 && this.proofs.size >= MOST_PROOFS) this.proofs.delete(key);
    this.proofs.set(address, proof);
    return proof;
  }

  private forget(connection: Connection): void {
    const { proof, infoAt } = connection;
    const at = this.idle.indexOf(connection);
    if (at !== -1) this.idle.splice(at, 1);
    connection.close();
    proof.open -= 1;
    if (proof.open > 0) return;
    if (infoAt !== undefined && infoAt === proof.at && this.clock.now() - infoAt <= BEHIND_INFO)
      this.believe(proof, infoAt);
    proof.at = -Infinity;
  }

  /** It closes behind its info: the next connections to its address would have nothing to be proved by. */
  private believe(proof: Proof, infoAt: Instant): void {
    if (!this.isProxied) proof.graceUntil = infoAt + GRACE;
  }

  /** Drawn at random, so that a dead address costs some calls and not all; the ones to avoid last. */
  private order(found: readonly LookupAddress[]): readonly LookupAddress[] {
    const now = this.clock.now();
    this.addresses = found.map(({ address }) => address);
    const drawn = found.map((each) => ({ each, at: Math.random() })).toSorted((a, b) => a.at - b.at);
    const rank = ({ address }: LookupAddress): number =>
      this.isShunned(address, now) ? 2 : this.isAvoided(address, now) ? 1 : 0;
    return drawn.map(({ each }) => each).toSorted((a, b) => rank(a) - rank(b));
  }

  private goodAddresses(): readonly string[] {
    // Those that were looked up are the proxy's.
    if (this.isProxied) return [];
    const now = this.clock.now();
    return this.addresses.filter((each) => !this.isShunned(each, now));
  }

  private isAvoided(address: string, now: Instant): boolean {
    return address === this.avoided.address && now < this.avoided.until;
  }

  private isShunned(address: string, now: Instant): boolean {
    return now < (this.proofs.get(address)?.shunnedUntil ?? -Infinity);
  }
}
