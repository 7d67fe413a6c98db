import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import type { Coordinator } from "../coordination/coordinator.ts";
import { BackgroundJobs } from "./background-jobs.ts";
import type { ListingAsk, ListingKnowledge, PageAddress } from "./listing.ts";
import type { RegistryMetadata } from "./registry-metadata.ts";
import { type RegistryWalk, renewing, walkRegistry } from "./registry-walk.ts";
import { WalkBudget } from "./walk-budget.ts";
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
  /** Walks in a row that failed, or met a listing too long to be read to its end. */
  setbacks: number;
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
  private readonly budget: WalkBudget;
  private readonly jobs = new BackgroundJobs({ concurrency: CONCURRENCY, maxQueued: MAX_JOBS });
  private readonly schedules = new WeakMap<RegistryMetadata, Schedule>();
  private readonly warmed = new WeakSet<RegistryMetadata>();
  private readonly stopping = new AbortController();
  private readonly settled = new Set<() => void>();
  private wantedUntil: Instant = -Infinity;
  private cancelTick: CancelTimer | undefined;

  constructor(options: WalkerOptions) {
    this.options = options;
    this.budget = new WalkBudget(options.clock);
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
    // A registry that fails, or lists for ever, has its own time to be asked again.
    const askedAnew = unknown.map((registry) => this.scheduleOf(registry)).filter(({ setbacks }) => setbacks === 0);
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
    // Read first: what waits must not keep bodies.
    void nextToken(registry, body).then((next) => {
      if (next === undefined || next === pageToken) return;
      this.jobs.add(`prefetch ${registry.upstream.name} ${pageSize} ${next}`, async () => {
        const { headers, deadline, signal } = this.ask(registry);
        const resource = registry.resource(admin, { operation: "instruments", pageSize, pageToken: next }, "walker");
        // Whoever asks for the page is told what is wrong with it.
        await registry.cache.respond(resource, { method: "GET", headers, deadline, signal }).catch(() => undefined);
      });
    });
  }

  private tick(): void {
    for (const registry of this.options.registries()) {
      if (!registry.upstream.config.cache.warmUp || this.warmed.has(registry)) continue;
      this.warmed.add(registry);
      this.jobs.add(`warm up ${registry.upstream.name}`, () => this.warmUp(registry));
    }
    this.cancelTick = this.options.clock.after(TICK, () => this.tick());
    this.walkDue();
  }

  private async warmUp(registry: RegistryMetadata): Promise<void> {
    // Of its own: what is read goes into the cache, and nothing else holds it.
    const share = new WalkBudget(this.options.clock).begin();
    await warmUp(registry, { ask: () => this.ask(registry), share });
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
    const { signal } = this.stopping;
    const schedule = this.scheduleOf(registry);
    const share = this.budget.begin();
    try {
      const walk = await walkRegistry(registry, { clock, coordinator, knowledge, signal, share });
      await walked(walk);
      const fresh = walk.freshUntil - clock.now();
      // Pages that are not stored say nothing about when to come back: then it is as if they lived for the usual time.
      const period = fresh > 0 ? fresh : registry.upstream.config.cache.ttl.instruments;
      schedule.setbacks = walk.isWhole ? 0 : schedule.setbacks + 1;
      const pause = walk.isWhole ? 0 : backOff(schedule);
      schedule.dueAt = clock.now() + Math.min(Math.max(period, pause, MIN_PERIOD), MAX_PERIOD);
    } catch {
      // The upstream's own metrics and log lines say what is wrong with it.
      schedule.setbacks += 1;
      schedule.dueAt = clock.now() + Math.min(backOff(schedule), MAX_BACKOFF) * (0.75 + random() / 2);
    } finally {
      share.end();
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
      schedule = { dueAt: -Infinity, setbacks: 0, isSettled: false };
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

function backOff({ setbacks }: Schedule): Duration {
  return MIN_PERIOD * 2 ** (setbacks - 1);
}

/** The token of the page after this one, percent-encoded; undefined when there is none, or the body is no page. */
async function nextToken({ pages, upstream }: RegistryMetadata, body: Buffer): Promise<string | undefined> {
  try {
    const page = await pages.read(body, upstream.name);
    return typeof page === "string" || page.nextPageToken === undefined
      ? undefined
      : encodeURIComponent(page.nextPageToken);
  } catch {
    // Too much to do: nobody waits for what is fetched ahead.
    return undefined;
  }
}
