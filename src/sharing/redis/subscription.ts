import type { Redis } from "ioredis";
import type { Socket } from "node:net";
import { type CancelTimer, type Clock, type Duration, valueWithin } from "../../clock.ts";
import { formatMessage, LONGEST_MESSAGE, type Message, parseMessage } from "./messages.ts";
import type { RedisObserver } from "./observer.ts";
import type { Seals } from "./seals.ts";

/** Bytes that may come without a message: the longest one, and what a socket reads at once. */
const MOST_UNREAD = LONGEST_MESSAGE + 65_536;

/** A subscription that Redis refused is tried again, as its ACL may be another one by then. */
const AGAIN_AFTER: Duration = 1_000;

export interface SubscriptionOptions {
  readonly channel: string;
  readonly seals: Seals;
  readonly clock: Clock;
  readonly observer: Pick<RedisObserver, "valueRejected">;
}

export interface SubscriptionListener {
  /** Messages come again, and some may not have come. */
  missed(): void;
  received(message: Message): void;
  failed(error: unknown): void;
}

/**
 * The messages of the other replicas. Who can publish can send one of any length: the connection on which one comes that is
 * longer than ours are is given up before it is read whole.
 */
export class Subscription {
  private readonly options: SubscriptionOptions;
  private readonly subscribed = Promise.withResolvers<void>();
  /** Messages are awaited that may have been sent before they were subscribed to. */
  private mayMiss = false;
  /** Bytes that came since the last message. */
  private unread = 0;
  private cancelRetry: CancelTimer | undefined;

  constructor(options: SubscriptionOptions) {
    this.options = options;
  }

  /** Of the connection that messages come on from now on. */
  readonly bound = (socket: Socket): void => {
    this.unread = 0;
    socket.on("data", (bytes: Buffer) => {
      this.unread += bytes.length;
      if (this.unread <= MOST_UNREAD) return;
      this.options.observer.valueRejected("message", "form");
      socket.destroy(new Error("a message that is longer than any of the gateway's"));
    });
  };

  /** Has what comes on the channel given to `listener`. */
  start(client: Redis, listener: SubscriptionListener): void {
    client.on("message", (_channel: string, text: string) => {
      this.unread = 0;
      const message = this.read(text);
      if (message !== undefined) listener.received(message);
    });
    client.on("ready", () => this.subscribe(client, listener));
  }

  /** Resolves once messages come, at the latest after `timeout`; then `missed` is called when some may have been missed. */
  async whenSubscribed(timeout: Duration): Promise<void> {
    await valueWithin(this.subscribed.promise, timeout, this.options.clock);
    this.mayMiss = true;
  }

  /** A message as scripts publish it; its seal is one more item of the list. Of one that is too long, that something changed. */
  format(message: Message): string {
    const { channel, seals } = this.options;
    const text = formatMessage(message);
    const seal = seals.sealOf({ kind: "message", key: channel }, text);
    const sealed = seal === "" ? text : `${text.slice(0, -1)},"${seal}"]`;
    const isTooLong = Buffer.byteLength(sealed) > LONGEST_MESSAGE && "tag" in message && message.kind !== "look";
    return isTooLong ? this.format({ kind: "look", tag: message.tag }) : sealed;
  }

  private subscribe(client: Redis, listener: SubscriptionListener): void {
    const { channel, clock } = this.options;
    this.cancelRetry?.();
    const subscribed = (): void => {
      if (this.mayMiss) listener.missed();
      this.mayMiss = true;
      this.subscribed.resolve();
    };
    const failed = (error: unknown): void => {
      listener.failed(error);
      this.mayMiss = true;
      this.cancelRetry = clock.after(AGAIN_AFTER, () => {
        if (client.status === "ready") this.subscribe(client, listener);
      });
    };
    client.subscribe(channel).then(subscribed, failed);
  }

  private read(text: string): Message | undefined {
    const { channel, seals, observer } = this.options;
    let unsealed = text;
    if (seals.areOn) {
      const [, list, seal] = /^(.*),"([\w-]{22})"\]$/s.exec(text) ?? [];
      const opened = seal && seals.check({ kind: "message", key: channel }, `${list}]`, seal);
      if (!opened) {
        observer.valueRejected("message", "seal");
        return undefined;
      }
      unsealed = opened.text;
    }
    const message = parseMessage(unsealed);
    if (message === undefined) observer.valueRejected("message", "form");
    return message;
  }
}
