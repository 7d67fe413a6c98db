import type { AnnouncementsPort } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import { PUBLISH } from "./scripts.ts";

/** So many announcements may wait for a Redis that is away. */
const MAX_UNSENT = 256;

/** What processes say to each other at once. */
export class Announcements implements AnnouncementsPort {
  private readonly connection: RedisConnection;
  /** Announced, and not taken by Redis yet. */
  private readonly unsent = new Set<string>();
  private listener: (event: string | undefined) => void = () => undefined;

  constructor(connection: RedisConnection) {
    this.connection = connection;
  }

  announce(event: string, { isBrief } = { isBrief: false }): void {
    if (isBrief) return void this.send(event).catch(() => undefined);
    if (this.unsent.size >= MAX_UNSENT) return;
    this.unsent.add(event);
    void this.sendAll();
  }

  onAnnounced(listener: (event: string | undefined) => void): void {
    this.listener = listener;
  }

  /** Undefined: some may have been missed. */
  received(event: string | undefined): void {
    this.listener(event);
  }

  /** There is a connection, new or again. */
  connected(): void {
    void this.sendAll();
  }

  /** Sends what did not reach Redis yet; what does not now waits for the next connection. */
  private async sendAll(): Promise<void> {
    for (const event of this.unsent) {
      try {
        await this.send(event);
        this.unsent.delete(event);
      } catch {
        return;
      }
    }
  }

  private async send(event: string): Promise<void> {
    const message = this.connection.message({ kind: "news", event });
    await this.connection.run({ script: PUBLISH, keys: [this.connection.keys.channel], args: [message] });
  }
}
