import type { Clock, Duration, Instant } from "../../clock.ts";
import { ConnectionGone, ProofFailed } from "../call/failure.ts";
import { Link } from "./connection.ts";
import type { LinkTarget } from "./connection.ts";

/** A connection older than this is replaced, so that names are resolved and certificates are read anew. */
const LINK_TTL: Duration = 60_000;

/** So long after the last call a connection that stands by is closed, as undici does with those that were used. */
const STAND_BY: Duration = 15_000;

/** How often a connection that closed before its request could be sent is replaced by another new one. */
const MOST_ROUNDS = 3;

/** Finds out over this connection whether the node is the registry it should be; rejects when it is not, or not known. */
export type Prove = (link: Link) => Promise<void>;

/** Somebody's wait for a connection. */
export class Opening {
  /** A connection is there; what is waited for is what the node says over it. */
  isConnected = false;
  isCancelled = false;
  /** What ends with the wait. */
  readonly links = new Set<Link>();

  /** The wait is over: closes what was opened for it, but what it got, and what others wait for too. */
  cancel(): void {
    this.isCancelled = true;
    for (const link of this.links) link.destroy();
    this.links.clear();
  }
}

/**
 * The connections to one node. Each serves one call at a time, so that nothing ever waits in a queue where its
 * deadline could not reach it; how many there may be is the caller's to bound.
 *
 * A connection carries calls only when the node has proved over it whose registry it is, or when it was opened to the
 * same address and certificate while such a one was open: whatever took the node's place has closed the others.
 */
export class Connections {
  private readonly target: LinkTarget;
  private readonly clock: Clock;
  private readonly prove: Prove | undefined;
  /** The most recently used last. */
  private readonly idle: Link[] = [];
  private readonly busy = new Set<Link>();
  /** Too old to be used, and open until another one is. */
  private readonly retired: Link[] = [];
  /** The open ones that may carry calls: of this node, and of what it was before a reload. */
  private proved = new Set<Link>();
  /** Questions that are being asked, by the address and certificate they are asked at. */
  private readonly proofs = new Map<string, Promise<void>>();
  /** How often the proofs were taken away. */
  private revocations = 0;
  /** Settles when the one that was opened beside the last proof stands by. */
  private sparing: Promise<void> = Promise.resolve();
  /** The node closed the connection with its last proof: the next one begins when another connection is open. */
  private isBrief = false;
  private lastTakenAt: Instant = 0;
  private isClosed = false;

  /** Without `prove` any connection will do. */
  constructor(target: LinkTarget, clock: Clock, prove?: Prove) {
    this.target = target;
    this.clock = clock;
    this.prove = prove;
  }

  get origin(): string {
    return this.target.origin;
  }

  /** An open connection for one call, if there is one to spare that may carry it; else {@link open} one. */
  take(): Link | undefined {
    const now = this.clock.now();
    this.lastTakenAt = now;
    for (let link = this.idle.pop(); link !== undefined; link = this.idle.pop()) {
      if (!link.isOpen || !link.isProved) {
        link.destroy();
      } else if (link.openedAt < now - LINK_TTL) {
        this.retired.push(link);
      } else {
        if (this.idle.length > 0 || this.prove === undefined) {
          this.closeRetired();
          return this.use(link);
        }
        // The last one stays, to vouch for others: what breaks those, which a client can bring about, costs no proof.
        this.idle.push(link);
        return undefined;
      }
    }
    return undefined;
  }

  /**
   * A new connection for one call. Give it back with {@link release} or {@link discard}.
   * @throws what the connection failed with, or what the proof did.
   */
  async open(opening: Opening): Promise<Link> {
    try {
      for (let round = 1; round <= MOST_ROUNDS; round += 1) {
        const link = await this.openProved(opening);
        if (opening.isCancelled) {
          if (!opening.links.has(link)) this.keep(link);
          break;
        }
        opening.links.delete(link);
        if (link.isProved && link.isOpen) return this.use(link);
        this.discard(link);
        // It was closed with the proof; the one that stands by vouches for the next.
        await this.sparing;
      }
      throw new ConnectionGone();
    } catch (error) {
      const last = opening.isCancelled || error instanceof ProofFailed ? undefined : this.idle.pop();
      if (last?.isOpen === true && last.isProved) return this.use(last);
      throw error;
    } finally {
      opening.cancel();
      this.closeRetired();
    }
  }

  /** Asks the node over a new connection, which is kept. Rejects as {@link open}. */
  async check(opening: Opening, prove: Prove): Promise<void> {
    try {
      const link = await this.connect(opening);
      const running = this.proofs.get(link.peer);
      if (running !== undefined) return await running;
      await this.ask(link, opening, prove);
      this.keep(link);
    } finally {
      opening.cancel();
    }
  }

  /** The call on `link` is over; the connection may serve another. */
  release(link: Link): void {
    if (!this.busy.delete(link)) return;
    this.keep(link);
  }

  /** The call on `link` failed or was given up: nothing else can be done with the connection. */
  discard(link: Link): void {
    this.busy.delete(link);
    // Not before undici, which may be in the middle of telling us, is done with it.
    queueMicrotask(() => link.destroy());
  }

  /** No connection may carry another call before the node was asked again. */
  revoke(): void {
    this.revocations += 1;
    for (const link of this.proved) link.isProved = false;
    this.proved.clear();
    for (const link of this.idle.splice(0)) this.discard(link);
  }

  /** The node is another one: what is under way on its connections fails. */
  disown(): void {
    this.revoke();
    for (const link of this.busy) this.discard(link);
  }

  /** Connections of this node under an earlier configuration vouch for new ones. */
  inherit(old: Connections): void {
    this.proved = old.proved;
  }

  /** Closes idle connections now and the others when their calls are over. */
  close(): void {
    this.isClosed = true;
    for (const link of this.idle.splice(0)) link.destroy();
    this.closeRetired();
  }

  private async openProved(opening: Opening): Promise<Link> {
    const link = await this.connect(opening);
    await this.vouchFor(link);
    if (!link.isProved && link.isOpen) await this.ask(link, opening, this.prove!);
    return link;
  }

  private async connect(opening: Opening): Promise<Link> {
    if (opening.isCancelled) throw new ConnectionGone();
    const link = new Link(this.target, this.clock, this.onLinkClose);
    opening.links.add(link);
    await link.open();
    // What the other connections have heard by now has to be known before they vouch for this one.
    await new Promise((resolve) => setImmediate(resolve));
    if (opening.isCancelled) throw new ConnectionGone();
    opening.isConnected = true;
    return link;
  }

  /** Lets `link` carry calls where others vouch for it: those that do so now, or the one the node is asked over. */
  private async vouchFor(link: Link): Promise<void> {
    if (this.prove === undefined || this.isVouchedFor(link)) return this.admit(link);
    const { revocations } = this;
    const running = this.proofs.get(link.peer);
    if (running === undefined) return;
    await running;
    if (revocations === this.revocations) this.admit(link);
  }

  /**
   * Has the node prove itself over `link`, for all who wait for the same address and certificate. Another connection is
   * opened meanwhile and stands by, for the answer may be the last on its own.
   */
  private ask(link: Link, opening: Opening, prove: Prove): Promise<void> {
    const { revocations } = this;
    // It goes on for the others when who asked first does not wait any more.
    opening.links.delete(link);
    const spare = this.openBeside(link);
    const proof = (this.isBrief ? spare : Promise.resolve())
      .then(() => prove(link))
      .then(() => {
        this.isBrief = !link.isOpen;
        if (revocations === this.revocations) this.admit(link);
      })
      .catch((error: unknown) => {
        this.discard(link);
        throw error;
      })
      .finally(() => this.proofs.delete(link.peer));
    this.proofs.set(link.peer, proof);
    this.sparing = proof.then(
      async () => this.standBy(await spare, revocations),
      async () => (await spare)?.destroy(),
    );
    return proof;
  }

  /** A connection to the same address and certificate that was open while `link` was; undefined where none is to be had. */
  private async openBeside(link: Link): Promise<Link | undefined> {
    const opening = new Opening();
    try {
      const other = await this.connect(opening);
      if (other.peer !== link.peer || !link.isOpen) return undefined;
      opening.links.delete(other);
      return other;
    } catch {
      return undefined;
    } finally {
      opening.cancel();
    }
  }

  private standBy(link: Link | undefined, revocations: number): void {
    if (link === undefined) return;
    if (this.isClosed || !link.isOpen || revocations !== this.revocations) return link.destroy();
    this.admit(link);
    this.idle.unshift(link);
    this.closeUnneeded(link);
  }

  /** Closes a connection that stands by when no call was made for a while. */
  private closeUnneeded(link: Link): void {
    const left = this.lastTakenAt + STAND_BY - this.clock.now();
    if (left > 0 && link.isOpen) this.clock.after(left, () => this.closeUnneeded(link));
    else if (this.idle.includes(link)) link.destroy();
  }

  private closeRetired(): void {
    for (const link of this.retired.splice(0)) link.destroy();
  }

  private use(link: Link): Link {
    this.busy.add(link);
    return link;
  }

  private isVouchedFor({ peer }: Link): boolean {
    for (const link of this.proved) if (link.peer === peer && link.isOpen) return true;
    return false;
  }

  private admit(link: Link): void {
    if (!link.isOpen) return;
    link.isProved = true;
    this.proved.add(link);
  }

  private keep(link: Link): void {
    if (this.isClosed || !link.isOpen || !link.isProved) this.discard(link);
    else this.idle.push(link);
  }

  private readonly onLinkClose = (link: Link): void => {
    this.proved.delete(link);
    const index = this.idle.indexOf(link);
    if (index !== -1) this.idle.splice(index, 1);
  };
}
