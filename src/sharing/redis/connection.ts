import type { Logger } from "pino";
import { type CancelTimer, type Clock, type Duration, type Instant, settledWithin, withDeadline } from "../../clock.ts";
import type { RedisConfig } from "../../config/schema.ts";
import type { SharingObserver } from "../ports.ts";
import { causeOf } from "./cause.ts";
import {
  type Clients,
  type Commands,
  createClients,
  disconnect,
  GIVE_UP_AFTER,
  type Login,
  loginOf,
} from "./clients.ts";
import { Health } from "./health.ts";
import { inTime, Late, TICKS } from "./in-time.ts";

/** Time between refreshes while Redis is up. */
const REFRESH_EVERY: Duration = 1_000;

/** Time for which Redis is left alone after a failure: one that hangs, or answers errors, costs nothing. */
const PAUSE: Duration = 500;

/** Two late answers within this are no hiccup. */
const LATE_AGAIN: Duration = 5_000;

/** Bytes that may wait to be written. Beyond it Redis does not keep up, and what comes is not worth the memory. */
const MOST_BEHIND = 16 * 2 ** 20;

/** Sends a command, and rejects when it fails or is late. */
export type Ask = <T>(command: string, send: (redis: Commands) => Promise<T>) => Promise<T>;

/** Work that keeps what is known here equal to what Redis has. */
interface Subscription {
  readonly channel: string;
  readonly received: (message: string) => void;
  /** Called at each connect before anything else is asked, and each second; where it fails, Redis is away. */
  readonly refresh: (ask: Ask) => Promise<unknown>;
}

export interface ConnectionOptions {
  readonly config: RedisConfig;
  /** Texts of the files that `config` names, by path. */
  readonly texts: ReadonlyMap<string, string>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observer: SharingObserver;
}

/** One connection and one subscription, from their making to their first failure. */
interface Session extends Clients {
  /** Cause of the break, by the first event since the last refresh: it tells more than what commands say after it. */
  broken: string | undefined;
  /** When an answer was late last. */
  lateAt: Instant;
}

/**
 * The way to Redis. It is up from when a session has connected, subscribed and refreshed until anything fails; then the session
 * is closed, and the next one is tried after a pause. Nobody waits for that: without a session, commands have no answer.
 */
export class RedisConnection {
  private readonly options: ConnectionOptions;
  private readonly health: Health;
  private login: Login;
  private subscription: Subscription | undefined;
  private session: Session | undefined;
  private cancelTimer: CancelTimer = () => {};
  private readonly behind = new Set<Promise<unknown>>();
  private bytesBehind = 0;

  constructor(options: ConnectionOptions) {
    this.options = options;
    this.health = new Health(options.clock, options.log);
    this.login = loginOf(options.config);
  }

  status(): ReturnType<Health["status"]> {
    return this.health.status();
  }

  /** Connects in the background, and anew after each failure. */
  start(subscription: Subscription): void {
    this.subscription = subscription;
    this.open(subscription);
  }

  /** Logs in by this configuration from the next session on. */
  takeLogin(config: RedisConfig): void {
    this.login = loginOf(config);
  }

  /** Gives Redis' answer; undefined when it is away, fails, or is late. Never rejects. */
  async ask<T>(
    command: string,
    send: (redis: Commands) => Promise<T>,
    ticks: number = TICKS.request,
  ): Promise<T | undefined> {
    const session = this.usable(command);
    if (session === undefined) return undefined;
    try {
      return await this.send({ session, command, ticks }, send);
    } catch (error) {
      if (error instanceof Late) this.doubt(session, error);
      else this.fail(session, error);
      return undefined;
    }
  }

  /** Sends a command that nobody waits for; what Redis does not take in time is lost. */
  tell(command: string, bytes: number, send: (redis: Commands) => Promise<unknown>): void {
    const session = this.usable(command, bytes);
    if (session === undefined) return;
    this.bytesBehind += bytes;
    const written = this.observed(command, async () => send(session.commands))
      .catch((error: unknown) => this.fail(session, error))
      .finally(() => {
        this.behind.delete(written);
        this.bytesBehind -= bytes;
      });
    this.behind.add(written);
  }

  /** Waits for what is being written, `timeout` at most, and ends the session. */
  async close(timeout: Duration): Promise<void> {
    this.subscription = undefined;
    this.cancelTimer();
    await settledWithin(Promise.all(this.behind), timeout, this.options.clock);
    const { session } = this;
    if (session !== undefined) this.fail(session, new Error("Connection is closed"));
  }

  /** The session, where a command may be sent now; if not, the command is counted as skipped. */
  private usable(command: string, bytes = 0): Session | undefined {
    if (this.health.isUp && this.bytesBehind + bytes <= MOST_BEHIND) return this.session;
    this.options.observer.commandEnded(command, "skipped", 0);
    return undefined;
  }

  private send<T>({ session, command, ticks }: Sending, send: (redis: Commands) => Promise<T>): Promise<T> {
    const { clock } = this.options;
    return this.observed(command, () => inTime(async () => send(session.commands), ticks, clock));
  }

  private async observed<T>(command: string, work: () => Promise<T>): Promise<T> {
    const { clock, observer } = this.options;
    const start = clock.now();
    let outcome: "ok" | "error" = "error";
    try {
      const answer = await work();
      outcome = "ok";
      return answer;
    } finally {
      observer.commandEnded(command, outcome, (clock.now() - start) / 1_000);
    }
  }

  private open(subscription: Subscription): void {
    const { config, texts } = this.options;
    const clients = createClients(config, this.login, texts);
    const session: Session = { ...clients, broken: undefined, lateAt: -Infinity };
    this.session = session;
    for (const client of new Set<Commands>([session.commands, session.subscriber])) {
      const note = (error: unknown): void => void (session.broken ??= causeOf(error));
      for (const event of ["error", "node error", "sentinelError"]) client.on(event, note);
      client.on("end", () => this.fail(session, new Error("Connection is closed")));
    }
    session.subscriber.on("message", (_channel: string, message: string) => subscription.received(message));
    this.begin(session, subscription).catch((error: unknown) => this.fail(session, error));
  }

  private async begin(session: Session, subscription: Subscription): Promise<void> {
    const { clock } = this.options;
    const connected = Promise.all([...new Set([session.commands, session.subscriber])].map((each) => each.connect()));
    // What is told from now on is heard, and what was told before is read.
    const subscribed = connected.then(() => session.subscriber.subscribe(subscription.channel));
    const late = (): Error => new Error("no connection in time");
    await withDeadline(subscribed, { deadline: clock.now() + GIVE_UP_AFTER }, late, clock);
    await this.refresh(session, subscription);
  }

  private async refresh(session: Session, subscription: Subscription): Promise<void> {
    await subscription.refresh((command, send) => this.send({ session, command, ticks: TICKS.background }, send));
    if (this.session !== session) return;
    session.broken = undefined;
    this.health.cameUp();
    this.cancelTimer();
    this.cancelTimer = this.options.clock.after(REFRESH_EVERY, () => this.refreshAgain(session));
  }

  private refreshAgain(session: Session): void {
    const { subscription } = this;
    if (subscription === undefined) return;
    this.refresh(session, subscription).catch((error: unknown) => this.fail(session, error));
  }

  /** Leaves Redis alone after one late answer, until it has answered a refresh, for which no request waits. */
  private doubt(session: Session, late: Late): void {
    if (this.session !== session || !this.health.isUp) return;
    const now = this.options.clock.now();
    if (now - session.lateAt < LATE_AGAIN) return this.fail(session, late);
    session.lateAt = now;
    this.health.wentAway(causeOf(late));
    this.refreshAgain(session);
  }

  /** Ends the session, and begins the next one after a pause. */
  private fail(session: Session, error: unknown): void {
    if (this.session !== session) return;
    this.session = undefined;
    this.cancelTimer();
    for (const client of [session.commands, session.subscriber]) disconnect(client);
    const { subscription } = this;
    if (subscription === undefined) return;
    this.health.wentAway(session.broken ?? causeOf(error));
    this.cancelTimer = this.options.clock.after(PAUSE, () => this.open(subscription));
  }
}

/** How one command is sent. */
interface Sending {
  readonly session: Session;
  readonly command: string;
  readonly ticks: number;
}
