import type { Clock, Duration, Instant } from "../clock.ts";
import type { Peer } from "./peer.ts";
import type { HubTopics, Knowledge, MemberTopics } from "./topics.ts";
import type {
  CallGrant,
  CallLimit,
  Coordinator,
  Dependencies,
  FetchOutcome,
  Lease,
  PurgeReach,
} from "../coordination/coordinator.ts";
import { Epochs } from "../coordination/epochs.ts";

/** The hub is on this machine: a reply that takes longer will not come before the request's own deadline matters. */
const REPLY_TIMEOUT: Duration = 1_000;

/** Longer than the hub waits for the slowest member. */
const PURGE_TIMEOUT: Duration = 5_000;

/** A wait ends at its deadline at the hub; the reply gets this long to arrive. */
const LATEST_REPLY: Duration = 250;

type HubPeer = Peer<MemberTopics, HubTopics>;

/**
 * The coordinator of a worker: what it has to know at once, epochs and page chains, it has copies of, kept up to date
 * by the hub in the primary; the rest it asks the hub.
 */
export class ClusterMember implements Coordinator {
  private readonly hub: HubPeer;
  private readonly clock: Clock;
  private readonly epochs = new Epochs();
  private hear: (news: string) => void = () => undefined;

  private constructor(hub: HubPeer, clock: Clock, { epochs, chains }: Knowledge) {
    this.hub = hub;
    this.clock = clock;
    this.epochs.restore(epochs);
    for (const issued of chains) this.epochs.issueChain(issued.partition, issued.chain, issued.digest);
  }

  /** Becomes a member of the hub at the other end. Rejects when it does not answer. */
  static async join(hub: HubPeer, clock: Clock): Promise<ClusterMember> {
    // What the hub tells behind its reply may arrive before the reply was looked at.
    const early: ((member: ClusterMember) => void)[] = [];
    const known: { member?: ClusterMember } = {};
    const soon = (act: (member: ClusterMember) => void): undefined => {
      if (known.member === undefined) early.push(act);
      else act(known.member);
      return undefined;
    };
    hub.answer("purged", (change) => soon(({ epochs }) => epochs.follow(change)));
    hub.answer("chained", ({ partition, chain, digest }) =>
      soon(({ epochs }) => epochs.issueChain(partition, chain, digest)),
    );
    hub.answer("announced", (news) => soon((member) => member.hear(news)));
    const member = new ClusterMember(hub, clock, await hub.ask("join", undefined, PURGE_TIMEOUT));
    known.member = member;
    for (const act of early) act(member);
    return member;
  }

  epochOf(dependencies: Dependencies): string | undefined {
    return this.epochs.epochOf(dependencies);
  }

  issueChain(partition: string, chain: string, digest: string): void {
    if (this.epochs.chainDigest(partition, chain) === digest) return;
    this.epochs.issueChain(partition, chain, digest);
    this.hub.tell("chain", { partition, chain, digest });
  }

  async purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    // Here at once; the hub's own epochs, which all workers have in the end, take their place.
    this.epochs.raise(partition, scopes);
    await this.hub.ask("purge", { partition, scopes }, PURGE_TIMEOUT).catch(() => undefined);
    return "replica";
  }

  async acquire(key: string): Promise<Lease | undefined> {
    const isGranted = await this.hub.ask("acquire", key, REPLY_TIMEOUT).catch(() => undefined);
    // A hub that is away must not keep anybody from fetching.
    if (isGranted === undefined) return { release: () => this.hub.tell("release", { key, outcome: "failed" }) };
    if (!isGranted) return undefined;
    let isHeld = true;
    return {
      release: (outcome) => {
        if (!isHeld) return;
        isHeld = false;
        this.hub.tell("release", { key, outcome });
      },
    };
  }

  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    const patience = deadline - this.clock.now();
    return this.hub.ask("wait", { key, patience }, patience + LATEST_REPLY).catch(() => undefined);
  }

  takeCall(name: string, limit: CallLimit): Promise<CallGrant> {
    // Without the hub nobody knows what the others called: rather too few calls than too many.
    return this.hub
      .ask("takeCall", { name, limit }, REPLY_TIMEOUT)
      .catch((): CallGrant => ({ granted: false, retryIn: REPLY_TIMEOUT }));
  }

  remember(key: string, value: string, ttl: Duration): void {
    this.hub.tell("remember", { key, value, ttl });
  }

  recall(key: string): Promise<string | undefined> {
    return this.hub.ask("recall", key, REPLY_TIMEOUT).catch(() => undefined);
  }

  announce(news: string): void {
    this.hub.tell("announce", news);
  }

  onAnnounced(hear: (news: string) => void): void {
    this.hear = hear;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
