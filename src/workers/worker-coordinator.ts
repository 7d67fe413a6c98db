import type { Clock, Duration, Instant } from "../clock.ts";
import { type ActionOrder, Actions } from "../coordination/actions.ts";
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
import type { SharedLimits, SharingPhase, SlotClaim, TokenClaim, TokenGrant } from "../coordination/shared-limits.ts";
import type { JoinReply, PrimaryTopics, Shared, WorkerTopics } from "./protocol.ts";
import type { Peer } from "./rpc.ts";

/** The primary is on this machine: a reply that takes longer will not come before the request's own deadline matters. */
const REPLY_TIMEOUT: Duration = 1_000;

/** Longer than the primary waits for the slowest worker. */
const PURGE_TIMEOUT: Duration = 5_000;

/** A wait ends at its deadline at the primary; the reply gets this long to arrive. */
const LATEST_REPLY: Duration = 250;

type Primary = Peer<WorkerTopics, PrimaryTopics>;

/**
 * The coordinator of a worker. It has a copy of epochs, page chains and actions, which it needs at once, kept up to date by
 * the primary; the rest it asks the primary (see SharedState).
 */
export class WorkerCoordinator implements Coordinator {
  readonly clientLimits: SharedLimits;
  readonly actions: Actions;
  private readonly primary: Primary;
  private readonly clock: Clock;
  private readonly epochs = new Epochs();
  private hear: (news: string) => void = () => undefined;

  private constructor(primary: Primary, clock: Clock, { epochs, actions }: JoinReply) {
    this.primary = primary;
    this.clock = clock;
    this.clientLimits = new PrimaryLimits(primary, clock);
    this.actions = new Actions(clock);
    this.epochs.restore(epochs);
    for (const action of actions) this.actions.follow(action);
  }

  /** Joins the workers of the primary at the other end. Rejects when it does not answer. */
  static async join(primary: Primary, clock: Clock): Promise<WorkerCoordinator> {
    // What the primary tells behind its reply may arrive before the reply was looked at.
    const early: ((worker: WorkerCoordinator) => void)[] = [];
    const known: { worker?: WorkerCoordinator } = {};
    const soon = (act: (worker: WorkerCoordinator) => void): undefined => {
      if (known.worker === undefined) early.push(act);
      else act(known.worker);
      return undefined;
    };
    primary.answer("purged", (change) => soon(({ epochs }) => epochs.follow(change)));
    primary.answer("acted", (message) => soon(({ actions }) => actions.follow(message)));
    primary.answer("chained", ({ partition, chain, digest }) =>
      soon(({ epochs }) => epochs.issueChain(partition, chain, digest)),
    );
    primary.answer("announced", (news) => soon((worker) => worker.hear(news)));
    const worker = new WorkerCoordinator(primary, clock, await primary.ask("join", undefined, PURGE_TIMEOUT));
    known.worker = worker;
    for (const act of early) act(worker);
    return worker;
  }

  epochOf(dependencies: Dependencies): string | undefined {
    return this.epochs.epochOf(dependencies);
  }

  softEpochOf(dependencies: Dependencies): string {
    return this.epochs.softEpochOf(dependencies);
  }

  get softVersion(): number {
    return this.epochs.softVersion;
  }

  softPurgedAt(dependencies: Dependencies, since: string): number | undefined {
    return this.epochs.softPurgedAt(dependencies, since);
  }

  issueChain(partition: string, chain: string, digest: string): void {
    if (this.epochs.chainDigest(partition, chain) === digest) return;
    this.epochs.issueChain(partition, chain, digest);
    this.primary.tell("chain", { partition, chain, digest });
  }

  async purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    // Here at once; the primary's own epochs, which all workers have in the end, take their place.
    this.epochs.raise(partition, scopes, this.clock.wallNow());
    await this.primary.ask("purge", { partition, scopes }, PURGE_TIMEOUT).catch(() => undefined);
    return "replica";
  }

  async act(order: ActionOrder): Promise<PurgeReach> {
    // Here at once; what the primary says of it takes its place.
    const held = this.actions.begin(order);
    await this.primary.ask("act", this.actions.message(held), PURGE_TIMEOUT).catch(() => undefined);
    return "replica";
  }

  async acquire(key: string): Promise<Lease | undefined> {
    const isGranted = await this.primary.ask("acquire", key, REPLY_TIMEOUT).catch(() => undefined);
    // A primary that does not answer must not keep a worker from fetching.
    if (isGranted === undefined) return { release: () => this.primary.tell("release", { key, outcome: "failed" }) };
    if (!isGranted) return undefined;
    let isHeld = true;
    return {
      release: (outcome) => {
        if (!isHeld) return;
        isHeld = false;
        this.primary.tell("release", { key, outcome });
      },
    };
  }

  whenReleased(key: string, deadline: Instant): Promise<FetchOutcome | undefined> {
    const timeout = deadline - this.clock.now();
    return this.primary.ask("wait", { key, timeout }, timeout + LATEST_REPLY).catch(() => undefined);
  }

  takeCall(name: string, limit: CallLimit): Promise<CallGrant> {
    // Without the primary it is not known what the others called: rather too few calls than too many.
    return this.primary
      .ask("takeCall", { name, limit }, REPLY_TIMEOUT)
      .catch((): CallGrant => ({ granted: false, retryIn: REPLY_TIMEOUT }));
  }

  remember(key: string, value: string, ttl: Duration): void {
    this.primary.tell("remember", { key, value, ttl });
  }

  recall(key: string): Promise<string | undefined> {
    return this.primary.ask("recall", key, REPLY_TIMEOUT).catch(() => undefined);
  }

  announce(news: string): void {
    this.primary.tell("announce", news);
  }

  onAnnounced(hear: (news: string) => void): void {
    this.hear = hear;
  }

  close(): Promise<void> {
    this.actions.close();
    return Promise.resolve();
  }
}

/** A request waits no longer for the primary to count it. */
const COUNT_TIMEOUT: Duration = 250;

/** Limits of clients counted by the primary; while it does not answer, this worker has its share of them. */
class PrimaryLimits implements SharedLimits {
  /** The primary says how many with each answer. Until then it is asked about everything. */
  processes = Infinity;
  private readonly primary: Primary;
  private readonly clock: Clock;
  private silentUntil: Instant = -Infinity;

  constructor(primary: Primary, clock: Clock) {
    this.primary = primary;
    this.clock = clock;
  }

  get phase(): SharingPhase {
    return this.clock.now() < this.silentUntil ? "away" : "counted";
  }

  shareOf(whole: number): number {
    return this.processes === Infinity ? 1 : Math.max(1, Math.floor(whole / this.processes));
  }

  takeTokens(name: string, claim: TokenClaim): Promise<TokenGrant | undefined> {
    return this.told(this.primary.ask("takeTokens", { name, claim }, COUNT_TIMEOUT));
  }

  holdSlots(name: string, claim: SlotClaim): Promise<number | undefined> {
    return this.told(this.primary.ask("holdSlots", { name, claim }, COUNT_TIMEOUT));
  }

  onReturned(): void {
    // A primary that paused forgot nothing, and one that ended takes its workers along.
  }

  private async told<T>(answer: Promise<Shared<T>>): Promise<T | undefined> {
    try {
      const { value, workers } = await answer;
      this.processes = Math.max(1, workers);
      return value;
    } catch {
      this.silentUntil = this.clock.now() + REPLY_TIMEOUT;
      return undefined;
    }
  }
}
