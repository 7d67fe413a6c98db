import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import type { Coordinator } from "../coordinator/coordinator.ts";
import { BackgroundJobs } from "./background-jobs.ts";
import { readListedPage } from "./listed-page.ts";
import type { ListingAsk, ListingKnowledge, PageAddress } from "./listing.ts";
import type { RegistryMetadata } from "./registry-metadata.ts";
import { type RegistryWalk, renewing, walkRegistry } from "./registry-walk.ts";
import { warmUp } from "./warm-up.ts";

export interface WalkerOptions {
  readonly clock: Clock;
  /** From 0 to 1: spreads walks of several replicas. */
  readonly random: () => number;
  readonly coordinator: Coordinator;
  readonly knowledge: ListingKnowledge;
  /** The registries as they are configured now. */
  readonly registries: () => readonly RegistryMetadata[];
  /** Whether listings are of use to anybody: with aggregation. */
  readonly isListing: () => boolean;
  /** A listing was read from end to end. */
  readonly walked: (walk: RegistryWalk) => Promise<void>;
}

/** What is known of one registry's walks. */
interface Schedule {
  dueAt: Instant;
  failures: number;
  /** A walk has ended, well or not, since listings were last wanted. */
  isSettled: boolean;
}

const TICK: Duration = 500;

/** Registries that are walked at once. */
const CONCURRENCY = 4;
const MAX_JOBS = 1_000;

/** However soon pages expire, a registry is not walked more often. */
const MIN_PERIOD: Duration = 5_000;
const MAX_PERIOD: Duration = 600_000;
const MAX_BACKOFF: Duration = 60_000;

/** How long listings are kept up to date after somebody last asked for them. */
const WANTED: Duration = 600_000;

/**
 * Everything that is done in the background for the cached endpoints, after all other calls: whole listings for the
 * catalogue while somebody uses it, the next page ahead of a client, and the cache's first filling.
 */
export class Walker {
  private readonly options: WalkerOptions;
  private readonly jobs = new BackgroundJobs({ concurrency: CONCURRENCY, maxQueued: MAX_JOBS });
  private readonly schedules = new WeakMap<RegistryMetadata, Schedule>();
  private readonly warmed = new WeakSet<RegistryMetadata>();
  private readonly stopping = new AbortController();
  private readonly settled = new Set<() => void>();
  private wantedUntil: Instant = -Infinity;
  private cancelTick: CancelTimer | undefined;

  constructor(options: WalkerOptions) {
    this.options = options;
  }

  /** Begins: with a first filling where `cache.warmUp` asks for it. */
  start(): void {
    this.tick();
  }

  /** Ends what runs. */
  async stop(): Promise<void> {
    this.cancelTick?.();
    this.stopping.abort();
    for (const resolve of this.settled) resolve();
    await this.jobs.stop();
  }

  /**
   * Somebody uses the listings: they are kept up to date from now on, for a while.
   *
   * @param unknown registries of which nothing can be used any more, as after a purge: they are walked at once
   */
  wake(unknown: readonly RegistryMetadata[] = []): void {
    const { clock, isListing, registries } = this.options;
    if (!isListing()) return;
    const now = clock.now();
    const isNews = now >= this.wantedUntil;
    this.wantedUntil = now + WANTED;
    // A registry that fails has its own time to be asked again.
    const askedAnew = unknown.map((registry) => this.scheduleOf(registry)).filter(({ failures }) => failures === 0);
    for (const schedule of askedAnew) schedule.dueAt = -Infinity;
    const waitedFor = isNews ? registries().map((registry) => this.scheduleOf(registry)) : askedAnew;
    if (this.cancelTick === undefined || waitedFor.length === 0) return;
    for (const schedule of waitedFor) {
      if (schedule.dueAt <= now) schedule.isSettled = false;
    }
    this.walkDue();
  }

  /** Resolves when every registry has been walked, or could not be, since {@link wake}; at `deadline` at the latest. */
  async whenWalked(deadline: Instant): Promise<void> {
    const { clock } = this.options;
    if (this.isSettled || this.cancelTick === undefined) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        cancel();
        this.settled.delete(done);
        resolve();
      };
      const cancel = clock.after(deadline - clock.now(), done);
      this.settled.add(done);
    });
  }

  /**
   * Fetches the page that follows `body`, where `cache.prefetch` asks for it.
   *
   * @param address of the page whose body it is, its token percent-encoded as it came
   */
  prefetch(registry: RegistryMetadata, admin: string, address: PageAddress, body: Buffer): void {
    if (!registry.upstream.config.cache.prefetch) return;
    const { pageSize, pageToken } = address;
    this.jobs.add(`prefetch ${registry.upstream.name} ${pageSize} ${pageToken}`, async () => {
      const next = nextToken(body);
      if (next === undefined || next === pageToken) return;
      const { headers, deadline, signal } = this.ask(registry);
      const resource = registry.resource(admin, { operation: "instruments", pageSize, pageToken: next }, "walker");
      // Whoever asks for the page is told what is wrong with it.
      await registry.cache.respond(resource, { method: "GET", headers, deadline, signal }).catch(() => undefined);
    });
  }

  private tick(): void {
    for (const registry of this.options.registries()) {
      if (!registry.upstream.config.cache.warmUp || this.warmed.has(registry)) continue;
      this.warmed.add(registry);
      this.jobs.add(`warm up ${registry.upstream.name}`, () => warmUp(registry, () => this.ask(registry)));
    }
    this.cancelTick = this.options.clock.after(TICK, () => this.tick());
    this.walkDue();
  }

  private walkDue(): void {
    const { clock, isListing, registries } = this.options;
    if (!isListing()) return;
    const now = clock.now();
    for (const registry of registries()) {
      const isWanted = now < this.wantedUntil || registry.upstream.config.cache.warmUp;
      if (isWanted && this.scheduleOf(registry).dueAt <= now) {
        this.jobs.add(`walk ${registry.upstream.name}`, () => this.walk(registry));
      }
    }
  }

  private async walk(registry: RegistryMetadata): Promise<void> {
    const { clock, random, coordinator, knowledge, walked } = this.options;
    const schedule = this.scheduleOf(registry);
    try {
      const walk = await walkRegistry(registry, { clock, coordinator, knowledge, signal: this.stopping.signal });
      await walked(walk);
      schedule.failures = 0;
      const fresh = walk.freshUntil - clock.now();
      // Pages that are not stored say nothing about when to come back: then it is as if they lived for the usual time.
      const period = fresh > 0 ? fresh : registry.upstream.config.cache.ttl.instruments;
      schedule.dueAt = clock.now() + Math.min(Math.max(period, MIN_PERIOD), MAX_PERIOD);
    } catch {
      // The upstream's own metrics and log lines say what is wrong with it.
      schedule.failures += 1;
      const pause = Math.min(MIN_PERIOD * 2 ** (schedule.failures - 1), MAX_BACKOFF);
      schedule.dueAt = clock.now() + pause * (0.75 + random() / 2);
    }
    schedule.isSettled = true;
    if (this.isSettled) for (const resolve of this.settled) resolve();
  }

  private get isSettled(): boolean {
    return this.options.registries().every((registry) => this.scheduleOf(registry).isSettled);
  }

  private scheduleOf(registry: RegistryMetadata): Schedule {
    let schedule = this.schedules.get(registry);
    if (schedule === undefined) {
      schedule = { dueAt: -Infinity, failures: 0, isSettled: false };
      this.schedules.set(registry, schedule);
    }
    return schedule;
  }

  private ask(registry: RegistryMetadata): ListingAsk & { readonly signal: AbortSignal } {
    return {
      requester: "walker",
      headers: {},
      deadline: this.options.clock.now() + registry.upstream.config.timeout,
      signal: this.stopping.signal,
      adapt: renewing,
    };
  }
}

/** The token of the page after this one, percent-encoded; undefined when there is none, or the body is no page. */
function nextToken(body: Buffer): string | undefined {
  const page = readListedPage(body);
  return typeof page === "string" || page.nextPageToken === undefined
    ? undefined
    : encodeURIComponent(page.nextPageToken);
}
