import { randomBytes } from "node:crypto";
import type { Clock, Duration } from "../../clock.ts";
import { TimedOut, withReply } from "../../deadline.ts";
import type { RedisLink } from "./link.ts";
import type { Script } from "./script.ts";
import { mergeEpochs, parseEpochsReply, raiseEpochs, readEpochs } from "./epoch-scripts.ts";
import { BASE, type Epoch, epochCount, type Epochs, type EpochSet } from "../epochs.ts";
import type { PartitionView } from "./partition-views.ts";

/** How long commands may take that no request waits for. */
const COMMAND_TIMEOUT: Duration = 1_000;

/** What became of an epoch from elsewhere. */
export type Taken =
  /** It was newer, and counts from now on. */
  | "newer"
  | "known"
  /** It is older, or of the same age: Redis has to say what holds. */
  | "doubtful";

/** Brings the epochs of this process and those in Redis together. Nothing known here ever gives way to something older. */
export class EpochExchange {
  private readonly link: RedisLink;
  private readonly epochs: Epochs;
  private readonly clock: Clock;

  constructor(link: RedisLink, epochs: Epochs, clock: Clock) {
    this.link = link;
    this.epochs = epochs;
    this.clock = clock;
  }

  /** Takes over one epoch of a scope, or of the base, if it is newer. */
  take(view: PartitionView, scope: string, epoch: Epoch): Taken {
    const local = this.epochs.read(view.partition);
    const ours = scope === BASE ? local.base : local.scopes.get(scope);
    if (ours === epoch) return "known";
    if (!isNewer(epoch, ours)) return "doubtful";
    if (scope === BASE) this.epochs.replace(view.partition, { base: epoch, scopes: new Map() });
    else this.epochs.put(view.partition, scope, epoch);
    return "newer";
  }

  /**
   * Takes over epochs that came with an entry: the base, then one of each scope (undefined: none). False when they do
   * not agree with those here.
   */
  observe(view: PartitionView, scopes: readonly string[], found: readonly (Epoch | undefined)[]): boolean {
    const local = this.epochs.read(view.partition);
    if (found[0] !== local.base) return false;
    return scopes.every((scope, i) => {
      const theirs = found[i + 1];
      if (theirs === undefined) return !local.scopes.has(scope);
      return this.take(view, scope, theirs) !== "doubtful";
    });
  }

  /** Reads, and mends what Redis lacks. Returns whether the reading took no longer than `limit`. */
  async read(view: PartitionView, limit: Duration): Promise<boolean> {
    const reading = this.run(view, readEpochs, []);
    const isFast = withReply(reading, limit, this.clock).then(
      () => true,
      (error: unknown) => !(error instanceof TimedOut),
    );
    const reply = parseEpochsReply(await reading);
    view.clockOffset = reply.time - this.clock.now();
    if (!this.takeAll(view, reply.epochs)) await this.merge(view);
    view.isKnown = true;
    return isFast;
  }

  /** Writes the purges that are not in Redis yet; those made while it is at it go with the next time. */
  flush(view: PartitionView): Promise<void> {
    view.flushing ??= this.flushOnce(view).finally(() => {
      view.flushing = undefined;
    });
    return view.flushing;
  }

  private async flushOnce(view: PartitionView): Promise<void> {
    if (view.pending.size === 0) return;
    const batch = [...view.pending];
    const args = [this.link.keys.channel, view.tag, randomPart(), ...batch.flat()];
    let raised = await this.run(view, raiseEpochs, args);
    if (raised === null) {
      await this.merge(view);
      raised = await this.run(view, raiseEpochs, args);
    }
    const epochs = raised as Epoch[];
    for (const [i, [scope, noted]] of batch.entries()) {
      if (view.pending.get(scope) === noted) view.pending.delete(scope);
      this.take(view, scope, epochs[i]!);
    }
  }

  private async merge(view: PartitionView): Promise<void> {
    const { base, scopes } = this.epochs.read(view.partition);
    const known = view.isKnown ? "1" : "0";
    const args = [known, randomPart(), this.link.keys.channel, view.tag, base, ...[...scopes].flat()];
    this.takeAll(view, parseEpochsReply(await this.run(view, mergeEpochs, args)).epochs);
    view.isKnown = true;
  }

  /** Takes over what is newer in Redis. False when Redis lacks something. */
  private takeAll(view: PartitionView, theirs: EpochSet | undefined): boolean {
    if (theirs === undefined) return false;
    const ours = this.epochs.read(view.partition);
    if (theirs.base !== ours.base) {
      if (view.isKnown && !isNewer(theirs.base, ours.base)) return false;
      this.epochs.replace(view.partition, theirs);
      return true;
    }
    let isComplete = true;
    for (const [scope, epoch] of theirs.scopes) {
      if (this.take(view, scope, epoch) === "doubtful") isComplete = false;
    }
    for (const scope of ours.scopes.keys()) {
      if (!theirs.scopes.has(scope)) isComplete = false;
    }
    return isComplete;
  }

  private run(view: PartitionView, script: Script, args: string[]): Promise<unknown> {
    return this.link.run({ script, keys: [this.link.keys.epochs(view.tag)], args }, COMMAND_TIMEOUT);
  }
}

function isNewer(epoch: Epoch, than: Epoch | undefined): boolean {
  return than === undefined || epochCount(epoch) > epochCount(than);
}

function randomPart(): string {
  return randomBytes(9).toString("base64url");
}
