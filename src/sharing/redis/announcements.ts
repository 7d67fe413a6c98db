import type { AnnouncementsPort } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import { defineScript } from "./scripts.ts";

/** So many announcements may wait for a Redis that is away. */
const MAX_UNSENT = 256;

/** KEYS: where it is sent from. ARGV: channel, message. */
const publish = defineScript("announce", "allow-oom", "return redis.call('PUBLISH', ARGV[1], ARGV[2])");

/** What processes say to each other at once. */
export class Announcements implements AnnouncementsPort {
  private readonly connection: RedisConnection;
  /** Announced, and not told by Redis yet. */
  private readonly unsent = new Set<string>();
  private hear: (news: string | undefined) => void = () => undefined;

  constructor(connection: RedisConnection) {
    this.connection = connection;
  }

  announce(news: string, { isBrief } = { isBrief: false }): void {
    if (isBrief) return void this.send(news).catch(() => undefined);
    if (this.unsent.size >= MAX_UNSENT) return;
    this.unsent.add(news);
    void this.sendAll();
  }

  onAnnounced(hear: (news: string | undefined) => void): void {
    this.hear = hear;
  }

  /** Undefined: some may have been missed. */
  received(news: string | undefined): void {
    this.hear(news);
  }

  /** There is a connection, new or again. */
  connected(): void {
    void this.sendAll();
  }

  /** Sends what did not reach Redis yet; what does not now waits for the next connection. */
  private async sendAll(): Promise<void> {
    for (const news of this.unsent) {
      try {
        await this.send(news);
        this.unsent.delete(news);
      } catch {
        return;
      }
    }
  }

  private async send(news: string): Promise<void> {
    const { channel } = this.connection.keys;
    const args = [channel, this.connection.message({ kind: "news", news })];
    await this.connection.run({ script: publish, keys: [channel], args });
  }
}
