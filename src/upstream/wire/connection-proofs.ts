import type { Clock, Duration, Instant } from "../../clock.ts";
import type { Connection } from "./connection.ts";
import type { StepFault } from "./in-step.ts";

/** Finds out over this connection whether the node is the registry it should be; rejects when it is not, or not known. */
export type Prove = (connection: Connection) => Promise<void>;

/** How a node proves itself, and for how long that holds. */
export interface Proving {
  readonly prove: Prove;
  /** No call goes over a connection whose proof, its own or the one it was opened beside, is older than this. */
  readonly every: Duration;
  /** Its answers were out of step. */
  readonly onStepFault: (fault: StepFault) => void;
}

/** Opens and keeps connections that no call waits for. */
interface Spares {
  /** One to the same address and certificate, open while `connection` was; undefined where none is to be had. */
  readonly openBeside: (connection: Connection) => Promise<Connection | undefined>;
  readonly keep: (connection: Connection) => void;
}

/**
 * Which connections to one node may carry calls: one over which the node has proved whose registry it is, and one that
 * was opened to the same address and certificate while such a one was open. Whatever took the node's place has closed
 * the others.
 */
export class ConnectionProofs {
  private readonly clock: Clock;
  private readonly every: Duration;
  private readonly spares: Spares;
  /** The open connections that may carry calls: of this node, and of what it was before a reload. */
  private proved = new Set<Connection>();
  /** Proofs that are under way, by the address and certificate they are asked for at. */
  private readonly running = new Map<string, Promise<void>>();
  /** How often the proofs were taken away. */
  private revocations = 0;
  /** The node closed the connection with its last proof: the next proof begins when another connection is open. */
  private isBrief = false;
  private lastSpare: Promise<void> = Promise.resolve();

  constructor(clock: Clock, every: Duration, spares: Spares) {
    this.clock = clock;
    this.every = every;
    this.spares = spares;
  }

  /** Settles when the connection that was opened beside the last proof is kept, or not to be had. */
  whenSpareKept(): Promise<void> {
    return this.lastSpare;
  }

  /** The proof that is under way where this connection leads. */
  runningFor({ peer }: Connection): Promise<void> | undefined {
    return this.running.get(peer);
  }

  /**
   * Lets `connection` carry calls where others vouch for it: open ones, or the one that carries a proof now. Where that proof
   * fails, closes it and rejects as `prove`.
   */
  async vouchFor(connection: Connection): Promise<void> {
    const voucher = this.findVoucher(connection);
    if (voucher !== undefined) return this.admit(connection, voucher.provedAt);
    const { revocations } = this;
    const running = this.runningFor(connection);
    if (running === undefined) return;
    try {
      await running;
    } catch (error) {
      connection.close();
      throw error;
    }
    if (revocations === this.revocations) this.admit(connection, this.clock.now());
  }

  /**
   * Has the node prove itself over `connection`, for all calls that wait for the same address and certificate. Another
   * connection is opened meanwhile and kept, for the node may close this one with its answer. Where the proof fails, closes
   * it and rejects as `prove`.
   */
  ask(connection: Connection, prove: Prove): Promise<void> {
    const { revocations } = this;
    const spare = this.spares.openBeside(connection);
    const proof = (this.isBrief ? spare : Promise.resolve())
      .then(() => prove(connection))
      .then(() => {
        connection.confirm();
        this.isBrief = !connection.isOpen;
        if (revocations === this.revocations) this.admit(connection, this.clock.now());
      })
      .catch((error: unknown) => {
        connection.close();
        throw error;
      })
      .finally(() => this.running.delete(connection.peer));
    this.running.set(connection.peer, proof);
    this.lastSpare = proof.then(
      async () => this.keepSpare(await spare, revocations),
      async () => (await spare)?.destroy(),
    );
    return proof;
  }

  /** It may carry calls for as long as a proof of `provedAt` holds. */
  admit(connection: Connection, provedAt: Instant): void {
    if (!connection.isOpen) return;
    connection.isProved = true;
    connection.provedAt = provedAt;
    this.proved.add(connection);
  }

  /** No connection may carry another call before the node was asked again. */
  revoke(): void {
    this.revocations += 1;
    for (const connection of this.proved) connection.isProved = false;
    this.proved.clear();
  }

  /** The connection is closed. */
  forget(connection: Connection): void {
    this.proved.delete(connection);
  }

  /** Connections of the node under an earlier configuration vouch for new ones. */
  inherit(old: ConnectionProofs): void {
    this.proved = old.proved;
  }

  /** Whether the connection may carry a call now. */
  hold({ isProved, provedAt }: Connection): boolean {
    return isProved && provedAt >= this.clock.now() - this.every;
  }

  /** The open connection to the same address and certificate with the latest proof, if that one still holds. */
  private findVoucher({ peer }: Connection): Connection | undefined {
    let latest: Connection | undefined;
    for (const connection of this.proved) {
      if (connection.peer !== peer || !connection.isOpen || !this.hold(connection)) continue;
      if (latest === undefined || connection.provedAt > latest.provedAt) latest = connection;
    }
    return latest;
  }

  private keepSpare(spare: Connection | undefined, revocations: number): void {
    if (spare === undefined) return;
    if (!spare.isOpen || revocations !== this.revocations) return spare.destroy();
    this.admit(spare, this.clock.now());
    this.spares.keep(spare);
  }
}
