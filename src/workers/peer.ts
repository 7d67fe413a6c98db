import type { Clock, Duration } from "../clock.ts";
import { type ErrorCode, GatewayError, type GatewayErrorOptions } from "../errors.ts";
import type { MaybePromise } from "../coordination/coordinator.ts";

/** A way to send messages to another process of this machine. They arrive whole, in order, or not at all. */
export interface Port {
  /** Never throws: what cannot be sent is lost, and {@link Port.onClose} tells. */
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

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

type Handler = (payload: never) => unknown;

/** One side of a conversation: answers what `Mine` lists, asks what `Theirs` lists. */
export class Peer<Mine extends Topics<Mine>, Theirs extends Topics<Theirs>> {
  private readonly port: Port;
  private readonly clock: Clock;
  private readonly handlers = new Map<string, Handler>();
  private readonly pending = new Map<number, Pending>();
  private lastId = 0;
  private isClosed = false;

  constructor(port: Port, clock: Clock) {
    this.port = port;
    this.clock = clock;
    port.onMessage((message) => {
      // The runtime's own messages travel the same way.
      if (isMessage(message)) this.receive(message);
    });
    port.onClose(() => this.close());
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
    if (!this.isClosed) this.port.send({ kind: "tell", topic, payload } satisfies Message);
  }

  /** Rejects with {@link Unanswered} after `timeout` or when the other side is gone, else with its error. */
  ask<Topic extends keyof Theirs & string>(
    topic: Topic,
    payload: Theirs[Topic]["payload"],
    timeout: Duration,
  ): Promise<Theirs[Topic]["reply"]> {
    return new Promise((resolve, reject) => {
      if (this.isClosed || this.pending.size >= MAX_PENDING) {
        reject(new Unanswered(topic));
        return;
      }
      const id = ++this.lastId;
      const cancel = this.clock.after(timeout, () => {
        this.pending.delete(id);
        reject(new Unanswered(topic));
      });
      const settled = (): void => {
        cancel();
        this.pending.delete(id);
      };
      this.pending.set(id, {
        resolve: (value) => {
          settled();
          resolve(value);
        },
        reject: (error) => {
          settled();
          reject(error);
        },
      });
      this.port.send({ kind: "ask", topic, payload, id } satisfies Message);
    });
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
      if (handler === undefined) throw new Error(`nobody answers ${topic}`);
      const value = await handler(payload as never);
      this.port.send({ kind: "reply", id, value } satisfies Message);
    } catch (error) {
      this.port.send({ kind: "failure", id, error: failureOf(error) } satisfies Message);
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
