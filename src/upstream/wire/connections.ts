import type { Clock, Duration, Instant } from "../../clock.ts";
import { ConnectionGone, ProofFailed } from "./connection-failure.ts";
import { Connection } from "./connection.ts";
import type { ConnectionTarget } from "./connection.ts";

/** A connection older than this is replaced, so that names are resolved and certificates are read anew. */
const CONNECTION_TTL: Duration = 60_000;

/** A connection that stands by is closed when no call was made for so long, as undici does with those that were used. */
const STAND_BY: Duration = 15_000;

/** How often a connection that closed before its request could be sent is replaced by another new one. */
const MOST_ROUNDS = 3;

/** Finds out over this connection whether the node is the registry it should be; rejects when it is not, or not known. */
export type Prove = (connection: Connection) => Promise<void>;

/** Somebody's wait for a connection. */
export class Opening {
  /** A connection is there; what is waited for is what the node says over it. */
  isConnected = false;
  isCancelled = false;
  /** What ends with the wait. */
  readonly connections = new Set<Connection>();

  /** The wait is over: closes what was opened for it, but what it got, and what others wait for too. */
  cancel(): void {
    this.isCancelled = true;
    for (const connection of this.connections) connection.destroy();
    this.connections.clear();
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
  private readonly target: ConnectionTarget;
  private readonly clock: Clock;
  private readonly prove: Prove | undefined;
  /** The most recently used last. */
  private readonly idle: Connection[] = [];
  private readonly busy = new Set<Connection>();
  /** Too old to be used, and open until another one is. */
  private readonly retired: Connection[] = [];
  /** The open ones that may carry calls: of this node, and of what it was before a reload. */
  private proved = new Set<Connection>();
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
  constructor(target: ConnectionTarget, clock: Clock, prove?: Prove) {
    this.target = target;
    this.clock = clock;
    this.prove = prove;
  }

  get origin(): string {
    return this.target.origin;
  }

  /** An open connection for one call, if there is one to spare that may carry it; else {@link open} one. */
  take(): Connection | undefined {
    const now = this.clock.now();
    this.lastTakenAt = now;
    for (let connection = this.idle.pop(); connection !== undefined; connection = this.idle.pop()) {
      if (!connection.isOpen || !connection.isProved) {
        connection.destroy();
      } else if (connection.openedAt < now - CONNECTION_TTL) {
        this.retired.push(connection);
      } else {
        if (this.idle.length > 0 || this.prove === undefined) {
          this.closeRetired();
          return this.use(connection);
        }
        // The last one stays, to vouch for others: what breaks those, which a client can bring about, costs no proof.
        this.idle.push(connection);
        return undefined;
      }
    }
    return undefined;
  }

  /**
   * A new connection for one call. Give it back with {@link release} or {@link discard}.
   * @throws what the connection failed with, or what the proof did.
   */
  async open(opening: Opening): Promise<Connection> {
    try {
      for (let round = 1; round <= MOST_ROUNDS; round += 1) {
        const connection = await this.openProved(opening);
        if (opening.isCancelled) {
          if (!opening.connections.has(connection)) this.keep(connection);
          break;
        }
        opening.connections.delete(connection);
        if (connection.isProved && connection.isOpen) return this.use(connection);
        this.discard(connection);
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
      const connection = await this.connect(opening);
      const running = this.proofs.get(connection.peer);
      if (running !== undefined) return await running;
      await this.ask(connection, opening, prove);
      this.keep(connection);
    } finally {
      opening.cancel();
    }
  }

  /** The call on `connection` is over; the connection may serve another. */
  release(connection: Connection): void {
    if (!this.busy.delete(connection)) return;
    this.keep(connection);
  }

  /** The call on `connection` failed or was given up: nothing else can be done with the connection. */
  discard(connection: Connection): void {
    this.busy.delete(connection);
    // Not before undici, which may be in the middle of telling us, is done with it.
    queueMicrotask(() => connection.destroy());
  }

  /** No connection may carry another call before the node was asked again. */
  revoke(): void {
    this.revocations += 1;
    for (const connection of this.proved) connection.isProved = false;
    this.proved.clear();
    for (const connection of this.idle.splice(0)) this.discard(connection);
  }

  /** The node is another one: what is under way on its connections fails. */
  disown(): void {
    this.revoke();
    for (const connection of this.busy) this.discard(connection);
  }

  /** Connections of this node under an earlier configuration vouch for new ones. */
  inherit(old: Connections): void {
    this.proved = old.proved;
  }

  /** Closes idle connections now and the others when their calls are over. */
  close(): void {
    this.isClosed = true;
    for (const connection of this.idle.splice(0)) connection.destroy();
    this.closeRetired();
  }

  private async openProved(opening: Opening): Promise<Connection> {
    const connection = await this.connect(opening);
    await this.vouchFor(connection);
    if (!connection.isProved && connection.isOpen) await this.ask(connection, opening, this.prove!);
    return connection;
  }

  private async connect(opening: Opening): Promise<Connection> {
    if (opening.isCancelled) throw new ConnectionGone();
    const connection = new Connection(this.target, this.clock, this.onConnectionClose);
    opening.connections.add(connection);
    await connection.open();
    // What the other connections have heard by now has to be known before they vouch for this one.
    await new Promise((resolve) => setImmediate(resolve));
    if (opening.isCancelled) throw new ConnectionGone();
    opening.isConnected = true;
    return connection;
  }

  /** Lets `connection` carry calls where others vouch for it: those that do so now, or the one the node is asked over. */
  private async vouchFor(connection: Connection): Promise<void> {
    if (this.prove === undefined || this.isVouchedFor(connection)) return this.admit(connection);
    const { revocations } = this;
    const running = this.proofs.get(connection.peer);
    if (running === undefined) return;
    await running;
    if (revocations === this.revocations) this.admit(connection);
  }

  /**
   * Has the node prove itself over `connection`, for all who wait for the same address and certificate. Another connection is
   * opened meanwhile and stands by, for the answer may be the last on its own.
   */
  private ask(connection: Connection, opening: Opening, prove: Prove): Promise<void> {
    const { revocations } = this;
    // It goes on for the others when who asked first does not wait any more.
    opening.connections.delete(connection);
    const spare = this.openBeside(connection);
    const proof = (this.isBrief ? spare : Promise.resolve())
      .then(() => prove(connection))
      .then(() => {
        this.isBrief = !connection.isOpen;
        if (revocations === this.revocations) this.admit(connection);
      })
      .catch((error: unknown) => {
        this.discard(connection);
        throw error;
      })
      .finally(() => this.proofs.delete(connection.peer));
    this.proofs.set(connection.peer, proof);
    this.sparing = proof.then(
      async () => this.standBy(await spare, revocations),
      async () => (await spare)?.destroy(),
    );
    return proof;
  }

  /** A connection to the same address and certificate that was open while `connection` was; undefined where none is to be had. */
  private async openBeside(connection: Connection): Promise<Connection | undefined> {
    const opening = new Opening();
    try {
      const other = await this.connect(opening);
      if (other.peer !== connection.peer || !connection.isOpen) return undefined;
      opening.connections.delete(other);
      return other;
    } catch {
      return undefined;
    } finally {
      opening.cancel();
    }
  }

  private standBy(connection: Connection | undefined, revocations: number): void {
    if (connection === undefined) return;
    if (this.isClosed || !connection.isOpen || revocations !== this.revocations) return connection.destroy();
    this.admit(connection);
    this.idle.unshift(connection);
    this.clock.after(STAND_BY, () => this.closeUnneeded(connection));
  }

  /** Closes a connection that stands by, unless there was a call within {@link STAND_BY}. */
  private closeUnneeded(connection: Connection): void {
    const left = this.lastTakenAt + STAND_BY - this.clock.now();
    if (left > 0 && connection.isOpen) this.clock.after(left, () => this.closeUnneeded(connection));
    else if (this.idle.includes(connection)) connection.destroy();
  }

  private closeRetired(): void {
    for (const connection of this.retired.splice(0)) connection.destroy();
  }

  private use(connection: Connection): Connection {
    this.busy.add(connection);
    return connection;
  }

  private isVouchedFor({ peer }: Connection): boolean {
    for (const connection of this.proved) if (connection.peer === peer && connection.isOpen) return true;
    return false;
  }

  private admit(connection: Connection): void {
    if (!connection.isOpen) return;
    connection.isProved = true;
    this.proved.add(connection);
  }

  private keep(connection: Connection): void {
    if (this.isClosed || !connection.isOpen || !connection.isProved) this.discard(connection);
    else this.idle.push(connection);
  }

  private readonly onConnectionClose = (connection: Connection): void => {
    this.proved.delete(connection);
    const index = this.idle.indexOf(connection);
    if (index !== -1) this.idle.splice(index, 1);
  };
}
