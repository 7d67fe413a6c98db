import { DAY, type Duration } from "../../clock.ts";
import { chainName } from "../epochs.ts";
import type { ChainsPort } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { PartitionView } from "./partitions.ts";
import type { Message } from "./messages.ts";
import type { SharedEpochs } from "./epochs.ts";
import { writingOf } from "./values.ts";

/** A token stays known for as long after its page was last fetched: longer than a listing takes, and any entry lives. */
const TOKEN_LIFETIME: Duration = DAY;

/** Issued tokens that wait for Redis; older ones are forgotten there, and their pages stay unshared. */
const MAX_UNWRITTEN = 10_000;

/** The page tokens issued by any replica. */
export class SharedChains implements ChainsPort {
  private readonly connection: RedisConnection;
  private readonly epochs: SharedEpochs;
  /** Not known to be in Redis as they are here, by partition and chain. */
  private readonly unwritten = new Map<string, string>();

  constructor(connection: RedisConnection, epochs: SharedEpochs) {
    this.connection = connection;
    this.epochs = epochs;
  }

  issueChain(partition: string, chain: string, digest: string): void {
    this.epochs.issueChain(partition, chain, digest);
    void this.write(partition, chain, digest);
  }

  /**
   * Takes over the digest that came with an entry; `sent` is the one known here when it was asked for. What was issued
   * here in the meantime, or could not be written, is the newer one; what Redis does not have goes there, doubted or not.
   */
  observe(view: PartitionView, chain: string, answer: { sent: string | undefined; found: string | undefined }): void {
    const partition = view.partition!;
    if (this.epochs.chainDigest(partition, chain) !== answer.sent) return;
    const ours = this.epochs.lastChainDigest(partition, chain);
    const isUnwritten = answer.found === undefined || this.unwritten.has(chainName(partition, chain));
    if (ours !== undefined && ours !== answer.found && isUnwritten) this.issueChain(partition, chain, ours);
    else if (answer.found !== undefined) this.epochs.issueChain(partition, chain, answer.found);
  }

  /** Messages may not have come: of each token counts what Redis has, once it is looked for. */
  missed(): void {
    this.epochs.doubtChains();
  }

  received(message: Extract<Message, { kind: "chain" }>): void {
    const partition = this.epochs.partitionOf(message.tag);
    if (partition !== undefined) this.epochs.issueChain(partition, message.chain, message.digest);
  }

  private async write(partition: string, chain: string, digest: string): Promise<void> {
    const name = chainName(partition, chain);
    this.unwritten.set(name, digest);
    if (this.unwritten.size > MAX_UNWRITTEN) this.unwritten.delete(this.unwritten.keys().next().value!);
    if (!this.connection.isConnected) return;
    const { tag } = this.epochs.view(partition);
    const { keys, seals } = this.connection;
    const key = keys.chain(tag, chain);
    const text = seals.seal({ kind: "chain", key }, digest);
    const message = this.connection.message({ kind: "chain", tag, chain, digest });
    try {
      await this.connection.run(writingOf(this.connection, { key, text, ttl: TOKEN_LIFETIME, message }));
      if (this.unwritten.get(name) === digest) this.unwritten.delete(name);
    } catch {
      // It stays unwritten, and is written when the page behind it is next looked for.
    }
  }
}
