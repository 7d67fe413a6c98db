import type { CancelTimer, Duration, Instant } from "../clock.ts";
import type { Turn } from "../limits/queue.ts";
import type { Access } from "./access.ts";
import type { Connection } from "./connection.ts";
import { Connections } from "./connections.ts";
import type { Failure } from "./failure.ts";
import { askAgainAfter, type Candidate, type NodeEvent, STATE_AFTER } from "./node-state.ts";
import { askOverNew } from "./proving.ts";
import type { Target } from "./socket.ts";
import type { NodeState } from "./types.ts";

/** Least time between two infos that are asked because a call broke or was late. */
const DOUBT_EVERY: Duration = 5_000;
/** Age of the last info at which a node that calls pass over is asked anew. */
const SILENT: Duration = 20_000;
/** Time for which an address that gave no info is tried last among several. */
const SHUNNED: Duration = 10_000;
/** Least delay after an info that was not asked: for a pause, a limit of ours, or want of credentials. */
const ASK_LATER: Duration = 1_000;

interface Health {
  readonly state: NodeState;
  /** Why it is not up. */
  readonly cause: string | undefined;
  /** Unix ms. */
  readonly since: number;
  /** Infos in a row that failed. */
  readonly failures: number;
}

/** All that is known of a node's infos. */
interface InfoState {
  /** Party that the last info named. */
  named: string | undefined;
  askedAt: Instant;
  /** The question that runs, for all who wait for it. */
  asking: Promise<Failure | undefined> | undefined;
  /** Cancels the next question that no call asks. */
  cancelTimer: CancelTimer;
}

/** One node of a registry: its state, its connections, and what its infos said. It outlives reloads. */
export class Node implements Candidate {
  readonly url: string;
  /** Path of the URL, which precedes `/registry`. */
  readonly basePath: string;
  readonly connections: Connections;
  /** Access by the newest configuration. */
  access: Access;
  inFlight = 0;
  pausedUntil: Instant = -Infinity;
  /** Unix ms. */
  lastAnswer: number | undefined;
  health: Health;
  readonly info: InfoState = {
    named: undefined,
    askedAt: -Infinity,
    asking: undefined,
    cancelTimer: () => undefined,
  };

  constructor(url: string, target: Target, access: Access) {
    this.url = url;
    this.basePath = new URL(url).pathname.replace(/\/$/, "");
    this.access = access;
    this.connections = new Connections(target, access.clock);
    this.health = { state: "unproved", cause: undefined, since: access.clock.wallNow(), failures: 0 };
  }

  get state(): NodeState {
    return this.health.state;
  }

  get hasOpenConnection(): boolean {
    return this.connections.hasIdle;
  }

  /** Whether calls may go there: it is up, or has not told its admin yet, which a call waits for. */
  get mayBeAsked(): boolean {
    return this.state === "up" || this.state === "unproved";
  }

  isPaused(now: Instant): boolean {
    return now < this.pausedUntil;
  }

  /** Leaves the node alone for so long after a 429. A shorter pause does not end a longer one. */
  pause(duration: Duration): void {
    this.pausedUntil = Math.max(this.pausedUntil, this.access.clock.now() + duration);
  }

  /** Notes that an answer came. */
  answered(): void {
    this.lastAnswer = this.access.clock.wallNow();
  }

  /** Instant at which its info is asked without a call; undefined: none is planned. */
  get askedAgainAt(): Instant | undefined {
    const { state, failures } = this.health;
    const delay = askAgainAfter(state, failures, this.access.config.proofEvery);
    return delay === undefined ? undefined : this.info.askedAt + delay;
  }

  /** Notes what an info said: the state that follows, a line in the log, and when the info is asked again. */
  happened(event: NodeEvent, cause?: string): void {
    const { clock, config, log } = this.access;
    const { state, since, failures } = this.health;
    const next = STATE_AFTER[event];
    this.health = {
      state: next,
      cause,
      since: next === state ? since : clock.wallNow(),
      failures: event === "failed" ? failures + 1 : 0,
    };
    this.askAfter(askAgainAfter(next, this.health.failures, config.proofEvery));
    if (next === state) return;
    const line = { node: this.url, cause };
    if (next === "up") log.info(line, "the node is up");
    else log.warn(line, `the node is ${next}`);
  }

  /** Notes that the node gave no info, or another registry's, and has no other address. */
  infoFailedEverywhere({ reason, text }: Failure): void {
    this.happened(reason === "wrong_admin" ? "named_another" : "failed", text);
  }

  /** Notes that the address of this connection gave no info, or another registry's. A 429 says nothing of the node. */
  infoFailed(connection: Connection, failure: Failure): void {
    const { clock, config, admin, log } = this.access;
    const { address } = connection;
    const { reason, text } = failure;
    const isAnothers = reason === "wrong_admin";
    if (reason === "http_429") return;
    if (isAnothers && this.connections.mayHaveCarried(connection)) admin.noteWrong();
    this.connections.shun(connection, clock.now() + (isAnothers ? config.proofEvery : SHUNNED), isAnothers);
    connection.close();
    if (!this.connections.hasOtherThan(address)) return this.infoFailedEverywhere(failure);
    log.warn({ node: this.url, address, cause: text }, "one of the node's addresses is not used");
  }

  /** Has the info asked of a node that is up, after a call broke or was late: it decides whether the node is at fault. */
  doubt(): void {
    if (this.state !== "up") return;
    const wait = this.info.askedAt + DOUBT_EVERY - this.access.clock.now();
    if (wait <= 0) this.askSoon();
    else this.askAfter(wait);
  }

  /** Has the info asked while calls go to other nodes: without a connection, nobody would notice that this one is gone. */
  askIfSilent(): void {
    const isSilent = this.access.clock.now() - this.info.askedAt >= SILENT;
    if (isSilent && this.state === "up" && !this.hasOpenConnection && this.inFlight === 0) this.askSoon();
  }

  /** Asks the info in the background. Of a node that is not up it comes in turn with calls: they wait for what it brings. */
  askSoon(): void {
    if (this.access.config.mode === "cache-only" || this.connections.isClosed) return;
    this.ask(this.state === "up" ? "refresh" : "client").then(
      (failure) => {
        if (failure?.reason !== "http_429") return;
        this.askAfter(Math.max(this.pausedUntil - this.access.clock.now(), ASK_LATER));
      },
      () => this.askAfter(this.state === "up" ? undefined : ASK_LATER),
    );
  }

  /**
   * Asks the info over a new connection, once for all who wait for it.
   *
   * @returns why it is not proved; undefined: it is up
   * @throws GatewayError (in the promise) of our own limit, or credentials that cannot be had
   */
  ask(priority: Turn["priority"]): Promise<Failure | undefined> {
    this.info.asking ??= askOverNew(this, priority).finally(() => (this.info.asking = undefined));
    return this.info.asking;
  }

  /** Asks nothing more, and closes idle connections: the configuration has it no more. Calls that run end as they do. */
  close(): void {
    this.info.cancelTimer();
    this.connections.close();
  }

  private askAfter(delay: Duration | undefined): void {
    this.info.cancelTimer();
    if (delay === undefined || this.connections.isClosed) return;
    this.info.cancelTimer = this.access.clock.after(delay, () => this.askSoon());
  }

  /** Time for an info: an attempt's, or all of a call's at a sole node, unless another address of its name may be quicker. */
  get infoTimeout(): Duration {
    const { urls, timeout, attemptTimeout } = this.access.config;
    const isSole = urls.length === 1 && !this.connections.hasSeveral;
    return isSole ? timeout : Math.min(timeout, attemptTimeout);
  }
}
