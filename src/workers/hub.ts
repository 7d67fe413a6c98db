import { LRUCache } from "lru-cache";
import type { Clock, Duration } from "../clock.ts";
import { CallWindows } from "../coordination/call-windows.ts";
import type { Peer } from "./peer.ts";
import type { HubTopics, IssuedChain, Knowledge, MemberTopics } from "./topics.ts";
import type { Lease } from "../coordination/coordinator.ts";
import { Epochs } from "../coordination/epochs.ts";
import { Facts } from "../coordination/facts.ts";
import { LocalLeases } from "../coordination/leases.ts";

/** As many page tokens as a single process remembers. */
const MAX_CHAINS = 50_000;

/** A member that does not take note of a purge within this time must not go on answering: it is hung. */
const PURGE_TIMEOUT: Duration = 3_000;

type MemberPeer = Peer<HubTopics, MemberTopics>;

interface Member {
  readonly peer: MemberPeer;
  readonly leases: Map<string, Lease>;
  /** Ends a member that cannot be told of a purge. */
  readonly expel: () => void;
}

/**
 * What the workers of one machine share, kept by their primary, which is the authority on it: epochs, page chains,
 * leases, call budgets and facts. Members have copies of the epochs. All it does for a member ends with the member.
 */
export class ClusterHub {
  private readonly clock: Clock;
  private readonly epochs = new Epochs();
  private readonly chains = new LRUCache<string, IssuedChain>({ max: MAX_CHAINS });
  private readonly leases: LocalLeases;
  private readonly windows: CallWindows;
  private readonly facts: Facts;
  private readonly members = new Set<Member>();

  constructor(clock: Clock) {
    this.clock = clock;
    this.leases = new LocalLeases(clock);
    this.windows = new CallWindows(clock);
    this.facts = new Facts(clock);
  }

  /**
   * Serves the process at the other end of `peer` from now on.
   *
   * @param expel ends that process for good
   * @returns what to call when it is gone
   */
  serve(peer: MemberPeer, expel: () => void): () => void {
    const member: Member = { peer, expel, leases: new Map() };
    peer.answer("join", () => this.join(member));
    peer.answer("purge", async ({ partition, scopes }) => {
      await this.purge(partition, scopes);
      return undefined;
    });
    peer.answer("chain", (issued) => this.chain(issued));
    peer.answer("acquire", (key) => this.acquire(member, key));
    peer.answer("release", ({ key, outcome }) => {
      const lease = member.leases.get(key);
      member.leases.delete(key);
      lease?.release(outcome);
      return undefined;
    });
    peer.answer("wait", ({ key, patience }) => this.leases.whenReleased(key, this.clock.now() + patience));
    peer.answer("takeCall", ({ name, limit }) => this.windows.take(name, limit));
    peer.answer("remember", ({ key, value, ttl }) => {
      this.facts.remember(key, value, ttl);
      return undefined;
    });
    peer.answer("recall", (key) => this.facts.recall(key));
    peer.answer("announce", (news) => {
      for (const other of this.members) if (other !== member) other.peer.tell("announced", news);
      return undefined;
    });
    return () => this.part(member);
  }

  /** Gives the scopes new epochs: one message to each member. Resolves when every member has them, or is gone. */
  async purge(partition: string | undefined, scopes: readonly string[]): Promise<void> {
    const change = this.epochs.raise(partition, scopes);
    const told = [...this.members].map((member) =>
      member.peer.ask("purged", change, PURGE_TIMEOUT).catch(() => this.expel(member)),
    );
    await Promise.all(told);
  }

  close(): void {
    this.leases.close();
  }

  private join(member: Member): Knowledge {
    // From here on it is told what is new, in the same channel behind this reply.
    this.members.add(member);
    return { epochs: this.epochs.snapshot(), chains: [...this.chains.values()].toReversed() };
  }

  private part(member: Member): void {
    this.members.delete(member);
    for (const lease of member.leases.values()) lease.release("failed");
    member.leases.clear();
  }

  private expel(member: Member): undefined {
    if (this.members.has(member)) member.expel();
    return undefined;
  }

  private chain(issued: IssuedChain): undefined {
    this.chains.set(`${issued.partition}\n${issued.chain}`, issued);
    // To whom it is from as well: two that issue different ones at the same time end with the same.
    for (const { peer } of this.members) peer.tell("chained", issued);
    return undefined;
  }

  private acquire(member: Member, key: string): boolean {
    const lease = this.leases.acquire(key);
    if (lease === undefined) return false;
    member.leases.set(key, lease);
    return true;
  }
}
