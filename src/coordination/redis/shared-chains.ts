import type { Duration } from "../../clock.ts";
import type { RedisLink } from "./link.ts";
import type { Message } from "./message.ts";
import { Chains } from "../chains.ts";
import { issueToken } from "./epoch-scripts.ts";
import type { PartitionView } from "./partition-views.ts";
import type { SharedEpochs } from "./shared-epochs.ts";

/** A token stays known for as long after its page was last fetched: longer than a walk, and any entry, lives. */
const TOKEN_LIFETIME: Duration = 24 * 60 * 60 * 1_000;

/** Issued tokens that wait for Redis; older ones are forgotten there, and their pages stay unshared. */
const MAX_UNWRITTEN = 10_000;

/** The page tokens issued by any replica. */
export class SharedChains {
  private readonly link: RedisLink;
  private readonly epochs: SharedEpochs;
  private readonly chains = new Chains();
  /** Not known to be in Redis as they are here, by partition and chain. */
  private readonly unwritten = new Map<string, string>();

  constructor(link: RedisLink, epochs: SharedEpochs) {
    this.link = link;
    this.epochs = epochs;
  }

  digest(partition: string, chain: string): string | undefined {
    return this.chains.digest(partition, chain);
  }

  issue(partition: string, chain: string, digest: string): void {
    this.chains.issue(partition, chain, digest);
    void this.write(partition, chain, digest);
  }

  /**
   * Takes over the digest that came with an entry; `sent` is the one known here when it was asked for. What was issued
   * here in the meantime, or could not be written, is the newer one.
   */
  observe(view: PartitionView, chain: string, answer: { sent: string | undefined; found: string | undefined }): void {
    const partition = view.partition!;
    const ours = this.chains.digest(partition, chain);
    if (answer.found === ours) return;
    if (ours !== answer.sent) return;
    if (ours !== undefined && (answer.found === undefined || this.unwritten.has(nameOf(partition, chain)))) {
      void this.write(partition, chain, ours);
    } else if (answer.found !== undefined) {
      this.chains.issue(partition, chain, answer.found);
    }
  }

  received(message: Extract<Message, { kind: "chain" }>): void {
    const partition = this.epochs.partitionOf(message.tag);
    if (partition !== undefined) this.chains.issue(partition, message.chain, message.digest);
  }

  private async write(partition: string, chain: string, digest: string): Promise<void> {
    const name = nameOf(partition, chain);
    this.unwritten.set(name, digest);
    if (this.unwritten.size > MAX_UNWRITTEN) this.unwritten.delete(this.unwritten.keys().next().value!);
    if (!this.link.isConnected) return;
    const { tag } = this.epochs.view(partition);
    const { keys } = this.link;
    const args = [digest, TOKEN_LIFETIME, keys.channel, tag, chain];
    try {
      await this.link.run({ script: issueToken, keys: [keys.chain(tag, chain)], args }, 1_000);
      if (this.unwritten.get(name) === digest) this.unwritten.delete(name);
    } catch {
      // It stays unwritten, and is written when the page behind it is next looked for.
    }
  }
}

function nameOf(partition: string, chain: string): string {
  return `${partition}\n${chain}`;
}
