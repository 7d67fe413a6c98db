import type { CancelTimer, Duration, Instant } from "../clock.ts";
import type { Turn } from "../limits/queue.ts";
import type { Access } from "./access.ts";
import type { Connection } from "./connection.ts";
import { Connections } from "./connections.ts";
import type { Failure } from "./failure.ts";
import { askAgainAfter, type Candidate, NODE_STATES, type NodeEvent } from "./node-state.ts";
import { askOverNew } from "./proving.ts";
import type { Target } from "./socket.ts";
import type { NodeState } from "./types.ts";

/** A call that breaks or is late has the info asked at most so often. */
const DOUBT_EVERY: Duration = 5_000;
/** A node that calls pass over has its info asked so often. */
const SILENT: Duration = 20_000;
/** How long an address at which no info was to be had comes last among several. */
const SHUNNED: Duration = 10_000;
/** An info that could not be asked is asked again. */
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
  /** The party that the last one named. */
  named: string | undefined;
  askedAt: Instant;
  /** The one that is being asked. */
  asking: Promise<Failure | undefined> | undefined;
  cancelTimer: CancelTimer;
}

/** One node of a registry: its state, its connections, and what its infos said. It outlives reloads. */
export class Node implements Candidate {
  readonly url: string;
  /** Precedes `/registry`. */
  readonly basePath: string;
  readonly connections: Connections;
  /** By the newest configuration. */
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

  /** It is up, or has not told yet. */
  get mayBeAsked(): boolean {
    return this.state === "up" || this.state === "unproved";
  }

  isPaused(now: Instant): boolean {
    return now < this.pausedUntil;
  }

  /** The registry answered 429: nothing is asked of this node for so long, whatever another 429 says. */
  pause(duration: Duration): void {
    this.pausedUntil = Math.max(this.pausedUntil, this.access.clock.now() + duration);
  }

  answered(): void {
    this.lastAnswer = this.access.clock.wallNow();
  }

  /** When its info is asked again by itself; undefined: when a call needs it. */
  get askedAgainAt(): Instant | undefined {
    const { state, failures } = this.health;
    const delay = askAgainAfter(state, failures, this.access.config.proofEvery);
    return delay === undefined ? undefined : this.info.askedAt + delay;
  }

  /** An info said this of it. */
  happened(event: NodeEvent, cause?: string): void {
    const { clock, config, log } = this.access;
    const { state, since, failures } = this.health;
    const next = NODE_STATES[state][event];
    this.health = {
      state: next,
      cause,
      since: next === state ? since : clock.wallNow(),
      failures: event === "failed" ? failures + 1 : 0,
    };
    this.askAgain(askAgainAfter(next, this.health.failures, config.proofEvery));
    if (next === state) return;
    const line = { node: this.url, cause };
    if (next === "up") log.info(line, "the node is up");
    else log.warn(line, `the node is ${next}`);
  }

  /** No info was to be had, or another registry's, wherever the node was asked. */
  failed({ reason, text }: Failure): void {
    this.happened(reason === "wrong_admin" ? "named_another" : "failed", text);
  }

  /** At the address of this connection no info was to be had, or another registry's. A 429 says nothing of the node. */
  infoFailed(connection: Connection, failure: Failure): void {
    const { clock, config, admin, log } = this.access;
    const { address } = connection;
    const { reason, text } = failure;
    const isAnothers = reason === "wrong_admin";
    if (reason === "http_429") return;
    if (isAnothers && this.connections.mayHaveCarried(connection)) admin.noteWrong();
    this.connections.shun(connection, clock.now() + (isAnothers ? config.proofEvery : SHUNNED), isAnothers);
    connection.close();
    if (!this.connections.hasOtherThan(address)) return this.failed(failure);
    log.warn({ node: this.url, address, cause: text }, "one of the node's addresses is not used");
  }

  /** A call broke or was late: the info decides whether that is the node's fault. One that is not up is asked anyway. */
  doubt(): void {
    if (this.state !== "up") return;
    const wait = this.info.askedAt + DOUBT_EVERY - this.access.clock.now();
    if (wait <= 0) this.askSoon();
    else this.askAgain(wait);
  }

  /** A call went to another node: nobody would notice that this one, without a connection, is gone. */
  askIfSilent(): void {
    const isSilent = this.access.clock.now() - this.info.askedAt >= SILENT;
    if (isSilent && this.state === "up" && !this.hasOpenConnection && this.inFlight === 0) this.askSoon();
  }

  /** Asks the info in the background. */
  askSoon(): void {
    if (this.access.config.mode === "cache-only" || this.connections.isClosed) return;
    this.ask("refresh").then(
      (failure) => {
        if (failure?.reason !== "http_429") return;
        this.askAgain(Math.max(this.pausedUntil - this.access.clock.now(), ASK_LATER));
      },
      () => this.askAgain(this.state === "up" ? undefined : ASK_LATER),
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

  /** It was taken out of the configuration: calls that run end as they do. */
  close(): void {
    this.info.cancelTimer();
    this.connections.close();
  }

  private askAgain(delay: Duration | undefined): void {
    this.info.cancelTimer();
    if (delay === undefined || this.connections.isClosed) return;
    this.info.cancelTimer = this.access.clock.after(delay, () => this.askSoon());
  }

  /** An info has as long as a call: a sole node may use all of it, unless another address of its name may be quicker. */
  get infoTimeout(): Duration {
    const { urls, timeout, attemptTimeout } = this.access.config;
    const isSole = urls.length === 1 && !this.connections.hasSeveral;
    return isSole ? timeout : Math.min(timeout, attemptTimeout);
  }
}
