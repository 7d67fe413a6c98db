import { type Clock, type Duration, withDeadline } from "../clock.ts";
import type { MaybePromise } from "../coordination/coordinator.ts";
import { type ErrorCode, GatewayError, type GatewayErrorOptions } from "../errors.ts";

/** A way to send messages to another process of this machine. They arrive whole, in order, or not at all. */
export interface Channel {
  /** Never throws: what cannot be sent is lost, and {@link Channel.onClose} tells. */
  send(message: unknown): void;
  onMessage(listener: (message: unknown) => void): void;
  /** Called once, when no message will arrive any more. */
  onClose(listener: () => void): void;
}

/** What one side may be asked, by topic; `reply` is undefined where nothing is said back. */
export type Topics<Names> = {
  readonly [Topic in keyof Names]: { readonly payload: unknown; readonly reply: unknown };
};

/** The other side is gone, or did not reply in time. */
export class Unanswered extends Error {
  constructor(topic: string) {
    super(`no reply to ${topic}`);
    this.name = "Unanswered";
  }
}

/** Questions that wait for a reply; beyond it the other side is as good as gone. */
const MAX_PENDING = 100_000;

type Message =
  | { readonly kind: "tell"; readonly topic: string; readonly payload: unknown }
  | { readonly kind: "ask"; readonly topic: string; readonly payload: unknown; readonly id: number }
  | { readonly kind: "reply"; readonly id: number; readonly value: unknown }
  | { readonly kind: "failure"; readonly id: number; readonly error: Failure };

/** A rejection on its way to another process; errors of the gateway's own stay what they are. */
type Failure = { readonly message: string; readonly code?: ErrorCode } & GatewayErrorOptions;

type Pending = PromiseWithResolvers<unknown>;

type Handler = (payload: never) => unknown;

/** One side of a conversation: answers what `Mine` lists, asks what `Theirs` lists. */
export class Peer<Mine extends Topics<Mine>, Theirs extends Topics<Theirs>> {
  private readonly channel: Channel;
  private readonly clock: Clock;
  private readonly handlers = new Map<string, Handler>();
  private readonly pending = new Map<number, Pending>();
  private lastId = 0;
  private isClosed = false;

  constructor(channel: Channel, clock: Clock) {
    this.channel = channel;
    this.clock = clock;
    channel.onMessage((message) => {
      // The runtime's own messages travel the same way.
      if (isMessage(message)) this.receive(message);
    });
    channel.onClose(() => this.close());
  }

  /** Answers `topic` from now on. What the handler throws, the other side's question rejects with. */
  answer<Topic extends keyof Mine & string>(
    topic: Topic,
    handler: (payload: Mine[Topic]["payload"]) => MaybePromise<Mine[Topic]["reply"]>,
  ): void {
    this.handlers.set(topic, handler);
  }

  /** Says something that needs no reply. */
  tell<Topic extends keyof Theirs & string>(topic: Topic, payload: Theirs[Topic]["payload"]): void {
    if (!this.isClosed) this.channel.send({ kind: "tell", topic, payload } satisfies Message);
  }

  /** Rejects with {@link Unanswered} after `timeout` or when the other side is gone, else with its error. */
  async ask<Topic extends keyof Theirs & string>(
    topic: Topic,
    payload: Theirs[Topic]["payload"],
    timeout: Duration,
  ): Promise<Theirs[Topic]["reply"]> {
    if (this.isClosed || this.pending.size >= MAX_PENDING) throw new Unanswered(topic);
    const id = ++this.lastId;
    const pending: Pending = Promise.withResolvers();
    this.pending.set(id, pending);
    this.channel.send({ kind: "ask", topic, payload, id } satisfies Message);
    const deadline = this.clock.now() + timeout;
    try {
      return await withDeadline(pending.promise, { deadline, late: () => new Unanswered(topic) }, this.clock);
    } finally {
      this.pending.delete(id);
    }
  }

  private receive(message: Message): void {
    switch (message.kind) {
      case "tell":
        this.handlers.get(message.topic)?.(message.payload as never);
        return;
      case "ask":
        void this.reply(message.id, message.topic, message.payload);
        return;
      case "reply":
        this.pending.get(message.id)?.resolve(message.value);
        return;
      case "failure":
        this.pending.get(message.id)?.reject(errorOf(message.error));
    }
  }

  private async reply(id: number, topic: string, payload: unknown): Promise<void> {
    try {
      const handler = this.handlers.get(topic);
      if (handler === undefined) throw new Error(`there is no answer to ${topic}`);
      const value = await handler(payload as never);
      this.channel.send({ kind: "reply", id, value } satisfies Message);
    } catch (error) {
      this.channel.send({ kind: "failure", id, error: failureOf(error) } satisfies Message);
    }
  }

  private close(): void {
    this.isClosed = true;
    for (const { reject } of this.pending.values()) reject(new Unanswered("a process that ended"));
  }
}

function isMessage(message: unknown): message is Message {
  return typeof message === "object" && message !== null && "kind" in message;
}

function failureOf(error: unknown): Failure {
  if (!(error instanceof GatewayError)) return { message: error instanceof Error ? error.message : String(error) };
  const { code, message, status, retryAfter, proxyError, allow } = error;
  return { code, message, status, retryAfter, proxyError, allow };
}

function errorOf({ code, message, ...options }: Failure): Error {
  return code === undefined ? new Error(message) : new GatewayError(code, message, options);
}
