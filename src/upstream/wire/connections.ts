import type { Clock, Duration, Instant } from "../../clock.ts";
import { ConnectionGone, ProofFailed } from "./connection-failure.ts";
import { Connection } from "./connection.ts";
import type { ConnectionTarget, KnownTarget } from "./connection.ts";
import { ConnectionProofs } from "./connection-proofs.ts";
import type { Prove, Proving } from "./connection-proofs.ts";
import { StepRecord } from "./step-record.ts";

/** A connection older than this is replaced, so that names are resolved and certificates are read anew. */
const CONNECTION_TTL: Duration = 60_000;

/** A connection that stands by is closed when no call was made for so long, as undici does with those that were used. */
const STAND_BY: Duration = 15_000;

/** How often a connection that closed before its request could be sent is replaced by another new one. */
const MOST_ROUNDS = 3;

/** Idle connections that are kept of a node whose answers were out of step, where each POST opens one. */
const MOST_IDLE_IN_DOUBT = 4;

/**
 * What a request wants of its connection. A POST goes over none that is in doubt; `unused`: one on which nothing was asked,
 * but which registry it is.
 */
export type ConnectionUse = "GET" | "POST" | "unused";

/** A call's wait for a connection, or a check's. */
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
 * deadline could not reach it; how many there may be is the caller's to bound. See {@link ConnectionProofs} for which of
 * them may carry calls.
 */
export class Connections {
  /** When the certificate ends that was shown last (RFC 3339); undefined without TLS, and before the first. */
  certificateEnd: string | undefined;
  private readonly target: KnownTarget;
  private readonly clock: Clock;
  private readonly prove: Prove | undefined;
  private readonly proofs: ConnectionProofs;
  /** The one that was idle longest first: what it brings late has come by then, and is seen. */
  private readonly idle: Connection[] = [];
  private readonly busy = new Set<Connection>();
  /** Too old to be used, and open until another one is. */
  private readonly retired: Connection[] = [];
  private lastTakenAt: Instant = 0;
  private isClosed = false;

  /** Without `proving` any connection will do. */
  constructor(target: ConnectionTarget, clock: Clock, proving?: Proving) {
    this.target = { ...target, steps: new StepRecord(clock, proving?.onStepFault ?? ignore) };
    this.clock = clock;
    this.prove = proving?.prove;
    this.proofs = new ConnectionProofs(clock, proving?.every ?? Infinity, {
      openBeside: (connection) => this.openBeside(connection),
      keep: (connection) => this.standBy(connection),
    });
  }

  get origin(): string {
    return this.target.origin;
  }

  /** How often its answers were out of step since the start. */
  get stepFaults(): number {
    return this.target.steps.total;
  }

  /** It was out of step so often that others are asked where there are some. */
  get isDistrusted(): boolean {
    return this.target.steps.isDistrusted;
  }

  /** An open connection for one call, if there is one to spare that may carry it; else {@link open} one. */
  take(use: ConnectionUse): Connection | undefined {
    const now = this.clock.now();
    this.lastTakenAt = now;
    if (this.mustBeUnused(use)) return undefined;
    for (let connection = this.idle.shift(); connection !== undefined; connection = this.idle.shift()) {
      if (!connection.isOpen || !this.proofs.hold(connection)) {
        connection.destroy();
      } else if (connection.openedAt < now - CONNECTION_TTL) {
        this.retired.push(connection);
      } else {
        if (this.idle.length > 0 || this.prove === undefined) {
          this.closeRetired();
          return this.use(connection);
        }
        // The last one stays, to vouch for others: what breaks those, which a client can bring about, costs no proof.
        this.idle.unshift(connection);
        return undefined;
      }
    }
    return undefined;
  }

  /**
   * A new connection for one call. Give it back with {@link release} or {@link discard}.
   * @throws what the connection failed with, or what the proof did.
   */
  async open(opening: Opening, use: ConnectionUse): Promise<Connection> {
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
        await this.proofs.whenSpareKept();
      }
      throw new ConnectionGone();
    } catch (error) {
      const isFinal = opening.isCancelled || error instanceof ProofFailed || this.mustBeUnused(use);
      const last = isFinal ? undefined : this.idle.shift();
      if (last?.isOpen === true && this.proofs.hold(last)) return this.use(last);
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
      const running = this.proofs.runningFor(connection);
      if (running !== undefined) return await running;
      await this.ask(connection, opening, prove);
      this.keep(connection);
    } finally {
      opening.cancel();
    }
  }

  /** The call on `connection` is over; the connection may serve another. */
  release(connection: Connection): void {
    // Whether the node closes it, or has sent more than the answer, is known a turn of the event loop later.
    setImmediate(() => {
      if (this.busy.delete(connection)) this.keep(connection);
    });
  }

  /** The call on `connection` failed or was given up: nothing else can be done with the connection. */
  discard(connection: Connection): void {
    this.busy.delete(connection);
    connection.destroySoon();
  }

  /** No connection may carry another call before the node was asked again. */
  revoke(): void {
    this.proofs.revoke();
    for (const connection of this.idle.splice(0)) this.discard(connection);
  }

  /** The node is another one: what is under way on its connections fails. */
  disown(): void {
    this.revoke();
    for (const connection of this.busy) this.discard(connection);
  }

  /** Connections of this node under an earlier configuration vouch for new ones. */
  inherit(old: Connections): void {
    this.proofs.inherit(old.proofs);
    this.target.steps.inherit(old.target.steps);
  }

  /** Closes idle connections now and the others when their calls are over. */
  close(): void {
    this.isClosed = true;
    for (const connection of this.idle.splice(0)) connection.destroy();
    this.closeRetired();
  }

  private async openProved(opening: Opening): Promise<Connection> {
    const connection = await this.connect(opening);
    if (this.prove === undefined) this.proofs.admit(connection, this.clock.now());
    else {
      await this.proofs.vouchFor(connection);
      if (!connection.isProved && connection.isOpen) await this.ask(connection, opening, this.prove);
    }
    return connection;
  }

  private async connect(opening: Opening): Promise<Connection> {
    if (opening.isCancelled) throw new ConnectionGone();
    const connection = new Connection(this.target, this.clock, this.onConnectionClose);
    opening.connections.add(connection);
    await connection.open();
    this.certificateEnd = connection.certificateEnd;
    // What the other connections have heard by now has to be known before they vouch for this one.
    await new Promise((resolve) => setImmediate(resolve));
    if (opening.isCancelled) throw new ConnectionGone();
    opening.isConnected = true;
    return connection;
  }

  /** Has the node prove itself over `connection`; the proof goes on for others when `opening` is cancelled. */
  private ask(connection: Connection, opening: Opening, prove: Prove): Promise<void> {
    opening.connections.delete(connection);
    return this.proofs.ask(connection, prove);
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

  private standBy(connection: Connection): void {
    if (this.isClosed) return connection.destroy();
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

  private mustBeUnused(use: ConnectionUse): boolean {
    const { steps } = this.target;
    return use === "unused" || steps.isDistrusted || (use === "POST" && steps.isDoubtful);
  }

  private use(connection: Connection): Connection {
    connection.isUsed = true;
    this.busy.add(connection);
    return connection;
  }

  private keep(connection: Connection): void {
    const isNeeded = !this.target.steps.isDoubtful || this.idle.length < MOST_IDLE_IN_DOUBT;
    if (this.isClosed || !connection.isOpen || !connection.isProved || !isNeeded) this.discard(connection);
    else this.idle.push(connection);
  }

  private readonly onConnectionClose = (connection: Connection): void => {
    this.proofs.forget(connection);
    const index = this.idle.indexOf(connection);
    if (index !== -1) this.idle.splice(index, 1);
  };
}

function ignore(): void {}
