import { Abort, type Clock, type Duration, type Instant } from "../../clock.ts";
import { ConnectionGone, ProofFailed } from "./connection-failure.ts";
import { ConnectionProofs, type Prove, type Proving } from "./connection-proofs.ts";
import { type Connection, MOST_IDLE, type Protocol } from "./connection.ts";
import { Http1Connection, type KnownTarget } from "./http1-connection.ts";
import { Http2Connection } from "./http2-connection.ts";
import { StepRecord } from "./in-step.ts";
import { type ConnectionTarget, openSocket } from "./socket.ts";

/** A connection older than this is replaced, so that names are resolved and certificates are read anew. */
const CONNECTION_TTL: Duration = 60_000;

/** How often a connection that closed before its request could be sent is replaced by another new one. */
const MOST_ROUNDS = 3;

/** An idle HTTP/2 connection whose node is to show that it is there is closed where there are so many others. */
const MOST_DOUBTED = 4;

/**
 * What a request wants of its connection. A POST goes over none that is in doubt; `unused`: one on which nothing was asked,
 * but which registry it is.
 */
export type ConnectionUse = "GET" | "POST" | "unused";

/** A call's wait for a connection, or a check's. */
export class Opening extends Abort {
  /** A connection is there; what is waited for is what the node says over it. */
  isConnected = false;
}

/** What a connection showed of the node. */
export interface LastConnection {
  readonly protocol: Protocol;
  /** When its certificate ends (RFC 3339); undefined without TLS. */
  readonly certificateEnd: string | undefined;
}

/**
 * The connections to one node. Nothing ever waits in a queue where its deadline could not reach it; how many connections
 * there may be is the caller's to bound. See {@link ConnectionProofs} for which of them may carry calls.
 */
export class Connections {
  /** Of the connection that was opened last; undefined before the first. */
  last: LastConnection | undefined;
  private readonly target: KnownTarget;
  private readonly clock: Clock;
  private readonly proving: Proving | undefined;
  private readonly proofs: ConnectionProofs;
  /**
   * Those that have room, or over HTTP/2 may have it again, the one that was idle longest first: what it brings late has come
   * by then, and is seen.
   */
  private readonly free: Connection[] = [];
  private readonly busy = new Set<Connection>();
  /** Too old to be used, and open until another one is. */
  private readonly retired: Connection[] = [];
  private lastTakenAt: Instant = -Infinity;
  private isClosed = false;

  /** Without `proving` any connection will do. */
  constructor(target: ConnectionTarget, clock: Clock, proving?: Proving) {
    this.target = { ...target, steps: new StepRecord(clock, proving?.onStepFault ?? ignore) };
    this.clock = clock;
    this.proving = proving;
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
    for (let at = 0; at < this.free.length;) {
      const connection = this.free[at]!;
      if (connection.isOpen && connection.openedAt >= now - CONNECTION_TTL && this.proofs.hold(connection)) {
        if (connection.room > 0 && !this.isShunned(connection, use) && !this.isLast(connection)) {
          this.closeRetired();
          return this.use(connection);
        }
        at += 1;
      } else {
        this.free.splice(at, 1);
        if (connection.isOpen && this.proofs.hold(connection)) this.retired.push(connection);
        else connection.close();
      }
    }
    return undefined;
  }

  /**
   * A connection for one call: a new one, or one in doubt over which the node has just given its info. Give it back with
   * {@link release} or {@link discard}.
   * @throws what the connection failed with, or what the proof did.
   */
  async open(opening: Opening, use: ConnectionUse): Promise<Connection> {
    try {
      const asked = use === "POST" ? await this.askFirst(opening) : undefined;
      const opened = asked ?? this.use(await this.openForCall(opening));
      this.closeRetired();
      return opened;
    } catch (error) {
      const isFinal = opening.aborted || error instanceof ProofFailed;
      const other = isFinal ? undefined : this.takeAny(use);
      if (other === undefined) throw error;
      return other;
    }
  }

  /** Where none can be opened, as its name does not resolve any more, one that stands by or is old. */
  private takeAny(use: ConnectionUse): Connection | undefined {
    const open = [...this.free, ...this.retired].filter((each) => each.isOpen && each.room > 0);
    const last = open.find((each) => !this.isShunned(each, use) && this.proofs.hold(each));
    const at = last === undefined ? -1 : this.retired.indexOf(last);
    if (at !== -1) this.free.push(...this.retired.splice(at, 1));
    return last === undefined ? undefined : this.use(last);
  }

  /** Asks the node over a new connection, which is kept. Rejects as {@link open}. */
  async check(opening: Opening, prove: Prove): Promise<void> {
    const connection = await this.connect(opening);
    const running = this.proofs.runningFor(connection);
    if (running !== undefined) {
      connection.close();
      return running;
    }
    await this.proofs.ask(connection, prove);
    this.keep(connection);
  }

  /** The call on `connection` is over; the connection may serve another. */
  release(connection: Connection): void {
    connection.inFlight -= 1;
    if (connection.inFlight === 0) this.busy.delete(connection);
    this.keep(connection);
  }

  /** The call on `connection` failed or was given up: over HTTP/1.1 nothing else can be done with the connection. */
  discard(connection: Connection): void {
    if (connection.protocol === "h2") return this.release(connection);
    connection.inFlight = 0;
    this.busy.delete(connection);
    connection.close();
  }

  /** No connection may carry another call before the node was asked again. */
  revoke(): void {
    this.proofs.revoke();
    for (const connection of this.free.splice(0)) connection.close();
  }

  /** The node is another one: what is under way on its connections fails. */
  disown(): void {
    this.revoke();
    for (const connection of this.busy) queueMicrotask(() => connection.destroy());
  }

  /** Connections of this node under an earlier configuration vouch for new ones. */
  inherit(old: Connections): void {
    this.proofs.inherit(old.proofs);
    this.target.steps.inherit(old.target.steps);
  }

  /** Closes idle connections now and the others when their calls are over. */
  close(): void {
    this.isClosed = true;
    for (const connection of this.free.splice(0)) connection.close();
    this.closeRetired();
  }

  /** A new one that may carry calls. */
  private async openForCall(opening: Opening): Promise<Connection> {
    for (let round = 1; round <= MOST_ROUNDS; round += 1) {
      const connection = await this.openProved(opening);
      if (opening.aborted) this.keep(connection);
      if (opening.aborted) break;
      if (connection.isProved && connection.room > 0) return connection;
      connection.close();
      // It was closed with the proof; the one that stands by vouches for the next.
      await this.proofs.whenSpareKept();
    }
    throw new ConnectionGone();
  }

  /** A connection in doubt on which the node has now given its info, as it was asked. */
  private async askFirst(opening: Opening): Promise<Connection | undefined> {
    const { steps } = this.target;
    if (!steps.isDoubtful || steps.isDistrusted || this.proving === undefined) return undefined;
    const connection = this.free.find((each) => each.room > 0 && !this.isLast(each) && this.proofs.hold(each));
    if (connection === undefined) return undefined;
    this.use(connection);
    opening.isConnected = true;
    try {
      await this.proving.prove(connection);
      connection.confirm();
    } catch {
      this.discard(connection);
      return undefined;
    }
    if (connection.isOpen && !opening.aborted) return connection;
    this.release(connection);
    return undefined;
  }

  private async openProved(opening: Opening): Promise<Connection> {
    const connection = await this.connect(opening);
    if (this.proving === undefined) this.proofs.admit(connection, this.clock.now());
    else {
      await this.proofs.vouchFor(connection);
      if (!connection.isProved && connection.isOpen) await this.proofs.ask(connection, this.proving.prove);
    }
    return connection;
  }

  private async connect(opening: Opening): Promise<Connection> {
    const { target, clock, onClose } = this;
    let trip: Duration = 0;
    const onTrip = (measured: Duration): void => {
      trip = measured;
      target.steps.noteTrip(measured);
    };
    const socket = await openSocket(target, { clock, signal: opening, onTrip });
    const isHttp2 = "alpnProtocol" in socket && socket.alpnProtocol === "h2";
    const connection = isHttp2
      ? await Http2Connection.open(socket, target, clock, onClose)
      : new Http1Connection(socket, { ...target, trip }, clock, onClose);
    this.last = { protocol: connection.protocol, certificateEnd: connection.certificateEnd };
    if (isHttp2) clock.after(MOST_IDLE, () => this.endIdle(connection));
    // What the other connections have heard by now has to be known before they vouch for this one.
    await new Promise((resolve) => setImmediate(resolve));
    opening.isConnected = true;
    if (!opening.aborted) return connection;
    connection.close();
    throw new ConnectionGone();
  }

  /** A connection to the same address and certificate that was open while `connection` was; undefined where none is to be had. */
  private async openBeside(connection: Connection): Promise<Connection | undefined> {
    try {
      const other = await this.connect(new Opening());
      if (other.peer === connection.peer && connection.isOpen) return other;
      other.close();
    } catch {
      // The next call finds out.
    }
    return undefined;
  }

  private standBy(connection: Connection): void {
    if (this.isClosed) return connection.close();
    this.free.unshift(connection);
    if (connection.protocol === "http/1.1") this.clock.after(MOST_IDLE, () => this.endIdle(connection));
  }

  /** Closes or replaces a connection that stands by, or has streams, when no call was made within {@link MOST_IDLE}. */
  private endIdle(connection: Connection): void {
    if (!connection.isOpen) return;
    const now = this.clock.now();
    // For as long after a call there is a connection at hand: the next call costs no proof.
    const readyFor = this.proving?.every ?? 0;
    const left = connection.inFlight > 0 ? MOST_IDLE : this.lastTakenAt + MOST_IDLE - now;
    if (left > 0) this.clock.after(left, () => this.endIdle(connection));
    else if (now < this.lastTakenAt + readyFor && this.proofs.hold(connection)) void this.replace(connection);
    else connection.close();
  }

  /** Opens another beside it, which it vouches for, before the node closes what is idle. */
  private async replace(connection: Connection): Promise<void> {
    const other = await this.openBeside(connection);
    if (other !== undefined) {
      this.proofs.admit(other, connection.provedAt);
      this.standBy(other);
    }
    if (connection.inFlight === 0) connection.close();
    else this.clock.after(MOST_IDLE, () => this.endIdle(connection));
  }

  private closeRetired(): void {
    if (this.retired.length === 0) return;
    for (const connection of this.retired.splice(0)) connection.close();
  }

  /**
   * Whether answers of earlier requests may come over it, where that must not be; each call to a distrusted node has a
   * connection of its own. Streams have numbers.
   */
  private isShunned(connection: Connection, use: ConnectionUse): boolean {
    if (connection.protocol === "h2") return false;
    if (this.isDistrusted) return true;
    return connection.isInDoubt && (use === "unused" || (use === "POST" && this.target.steps.isDoubtful));
  }

  /** It stays, to vouch for others: what breaks those, which a client can bring about, costs no proof. */
  private isLast(connection: Connection): boolean {
    return connection.protocol === "http/1.1" && this.free.length === 1 && this.proving !== undefined;
  }

  private use(connection: Connection): Connection {
    connection.inFlight += 1;
    this.busy.add(connection);
    if (connection instanceof Http1Connection) connection.isUsed = true;
    const at = this.free.indexOf(connection);
    if (connection.room === 0 && at !== -1) this.free.splice(at, 1);
    return connection;
  }

  private keep(connection: Connection): void {
    const { protocol, isProved, inFlight, room } = connection;
    if (!connection.isOpen) return;
    const at = this.free.indexOf(connection);
    if (at !== -1) this.free.splice(at, 1);
    const isWanted = isProved && !this.isClosed && (protocol === "h2" || !this.isDistrusted);
    // Over HTTP/2 it has room again once its node shows that it is there, and vouches for others until then.
    const isSpent = room === 0 && inFlight === 0 && (protocol === "http/1.1" || this.free.length >= MOST_DOUBTED);
    if (!isWanted || isSpent) return connection.close();
    if (room > 0 || protocol === "h2") this.free.push(connection);
  }

  private readonly onClose = (connection: Connection): void => {
    this.proofs.forget(connection);
    const at = this.free.indexOf(connection);
    if (at !== -1) this.free.splice(at, 1);
  };
}

function ignore(): void {
  // Nobody asks whether what these connections bring is in step.
}
