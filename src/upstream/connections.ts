import type { LookupAddress } from "node:dns";
import type { Clock, Duration, Instant } from "../clock.ts";
import { Connection, holds, MOST_IDLE, type Proof } from "./connection.ts";
import { Dialer, type Target } from "./socket.ts";

/** A node that closes within this after its info, with nothing carried since, closes behind it. */
const BEHIND_INFO: Duration = 100;
/** Time for which such a node is believed. */
const GRACE: Duration = 1_000;
/** Time for which an address at which a call failed is avoided. One that gave no info is shunned, which is worse. */
const AVOIDED: Duration = 10_000;
/** Addresses that are remembered. Beyond it those without an open connection are forgotten. */
const MOST_PROOFS = 64;

/** The connections to a node, of which idle ones are kept until they close, and what is known of its addresses. */
export class Connections {
  readonly target: Target;
  readonly dialer: Dialer;
  private readonly clock: Clock;
  private readonly idle: Connection[] = [];
  private readonly proofs = new Map<string, Proof>();
  /** Addresses of the node's name, when it was last looked up. */
  private addresses: readonly string[] = [];
  private avoided = { address: "", until: -Infinity };
  private hasCarried = false;
  isClosed = false;

  constructor(target: Target, clock: Clock) {
    this.target = target;
    this.clock = clock;
    this.dialer = new Dialer(target, (addresses) => this.order(addresses));
  }

  /** Whether a proxy hides which address answers: each connection is proved by itself then. */
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

  /** Opens a connection. Its proof says whether it may carry a call: {@link holds}. Rejects with what the socket says. */
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

  /** Notes that a call goes over this connection. */
  carry({ proof }: Connection): void {
    proof.hasCarried = true;
    this.hasCarried = true;
  }

  /** Whether calls may have gone to whoever is at the other end. A proxy hides who that is: any connection counts then. */
  mayHaveCarried({ proof }: Connection): boolean {
    return proof.hasCarried || (this.isProxied && this.hasCarried);
  }

  /** Has the next calls meet another address, where there is one, since one failed at this connection's. */
  avoid({ address }: Connection): void {
    this.avoided = { address, until: this.clock.now() + AVOIDED };
  }

  /** Whether the node's name has several addresses: what hangs at one may go at another. */
  get hasSeveral(): boolean {
    return this.goodAddresses().length > 1;
  }

  /** Whether the node's name has another address, at which an info may be had. */
  hasOtherThan(address: string): boolean {
    return this.goodAddresses().some((each) => each !== address);
  }

  /** Closes idle connections now, and others when their calls end. */
  close(): void {
    this.isClosed = true;
    for (const connection of this.idle.splice(0)) connection.close();
  }

  /** Notes that the info of this connection named the admin just now. */
  prove(connection: Connection): void {
    const { proof } = connection;
    const now = this.clock.now();
    connection.infoAt = now;
    proof.shunnedUntil = -Infinity;
    proof.isAnothers = false;
    if (proof.open > 0) proof.at = now;
    else this.believe(proof, now);
  }

  /** Notes that no info was to be had at the address of this connection, or (`isAnothers`) another registry's. */
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
    const never = { at: -Infinity, graceUntil: -Infinity, shunnedUntil: -Infinity };
    const proof: Proof = { ...never, open: 0, isAnothers: false, hasCarried: false, asking: undefined };
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

  /** Believes a node that closes behind its info: its next connections would have nothing to be proved by. */
  private believe(proof: Proof, infoAt: Instant): void {
    if (!this.isProxied) proof.graceUntil = infoAt + GRACE;
  }

  /** Puts addresses in random order, so that a dead one costs some calls and not all; those to avoid come last. */
  private order(found: readonly LookupAddress[]): readonly LookupAddress[] {
    const now = this.clock.now();
    this.addresses = found.map(({ address }) => address);
    const drawn = found.map((each) => ({ each, at: Math.random() })).toSorted((a, b) => a.at - b.at);
    const rank = ({ address }: LookupAddress): number =>
      this.isShunned(address, now) ? 2 : this.isAvoided(address, now) ? 1 : 0;
    return drawn.map(({ each }) => each).toSorted((a, b) => rank(a) - rank(b));
  }

  private goodAddresses(): readonly string[] {
    // The name that was looked up is the proxy's.
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
