import { Abort, type CancelTimer, type Clock, type Duration, type Instant, settledWithin } from "../clock.ts";
import type { MetadataRequest, RegistryMetadata } from "./registry-metadata.ts";
import {
  listingSoftEpoch,
  MIN_PERIOD,
  ReadingBudget,
  readWholeListing,
  warmUp,
  type WholeListing,
} from "./whole-listing.ts";

export interface BackgroundReaderOptions {
  readonly clock: Clock;
  /** From 0 to 1: spreads the calls of several replicas. */
  readonly random: () => number;
  /** The registries as they are configured now. */
  readonly registries: () => readonly RegistryMetadata[];
  /** Whether listings are of use: with aggregation. */
  readonly isListing: () => boolean;
  /** A listing was read from end to end. */
  readonly listed: (listing: WholeListing) => Promise<void>;
}

/** When one registry's listing is read. */
interface Schedule {
  dueAt: Instant;
  /** Of the listing when it was last begun to be read: with another one now it is due, as it was purged softly since. */
  softEpoch: string;
  /** Readings in a row that failed, or met a listing too long to be read to its end. */
  setbacks: number;
  /** A reading has ended, well or not, since listings were last wanted. */
  isSettled: boolean;
}

const TICK: Duration = 500;

/** Jobs that run at once, and wait. */
const CONCURRENCY = 4;
const MAX_WAITING = 1_000;

const MAX_PERIOD: Duration = 600_000;
const MAX_BACKOFF: Duration = 60_000;

/** How long listings are kept up to date after a client last asked for them. */
const WANTED: Duration = 600_000;

/**
 * Everything that is read in the background for the cached endpoints, after all other calls: whole listings for the
 * catalogue while clients use it, and the cache's first filling.
 */
export class BackgroundReader {
  private readonly options: BackgroundReaderOptions;
  private readonly budget: ReadingBudget;
  private readonly jobs = new Jobs();
  private readonly schedules = new WeakMap<RegistryMetadata, Schedule>();
  private readonly warmed = new WeakSet<RegistryMetadata>();
  private readonly stopping = new Abort();
  /** Resolves when the next reading has ended. */
  private settled = Promise.withResolvers<void>();
  private wantedUntil: Instant = -Infinity;
  private cancelTick: CancelTimer | undefined;

  constructor(options: BackgroundReaderOptions) {
    this.options = options;
    this.budget = new ReadingBudget(options.clock);
  }

  /** Begins: with a first filling where `cache.warmUp` asks for it. */
  start(): void {
    this.tick();
  }

  /** Ends what runs. */
  async stop(): Promise<void> {
    this.cancelTick?.();
    this.cancelTick = undefined;
    this.stopping.abort();
    this.settled.resolve();
    await this.jobs.stop();
  }

  /**
   * A client uses the listings: they are kept up to date from now on, for a while.
   *
   * @param unknown registries of which nothing can be used any more, as after a purge: they are read at once
   */
  wake(unknown: readonly RegistryMetadata[] = []): void {
    const { clock, isListing, registries } = this.options;
    if (!isListing()) return;
    const now = clock.now();
    const isFirst = now >= this.wantedUntil;
    this.wantedUntil = now + WANTED;
    // A registry that fails, or lists for ever, has its own time to be asked again.
    const askedAnew = unknown.map((registry) => this.scheduleOf(registry)).filter(({ setbacks }) => setbacks === 0);
    for (const schedule of askedAnew) schedule.dueAt = -Infinity;
    const waitedFor = isFirst ? registries().map((registry) => this.scheduleOf(registry)) : askedAnew;
    if (this.cancelTick === undefined || waitedFor.length === 0) return;
    for (const schedule of waitedFor) {
      if (schedule.dueAt <= now) schedule.isSettled = false;
    }
    this.readDue();
  }

  /** Resolves when each of these was read, or could not be, since {@link wake}; at `deadline` at the latest. */
  async whenRead(registries: readonly RegistryMetadata[], deadline: Instant): Promise<void> {
    const { clock } = this.options;
    const areSettled = () => registries.every((registry) => this.scheduleOf(registry).isSettled);
    while (this.cancelTick !== undefined && !areSettled() && clock.now() < deadline) {
      await settledWithin(this.settled.promise, deadline - clock.now(), clock);
    }
  }

  private tick(): void {
    for (const registry of this.options.registries()) {
      if (!registry.upstream.config.cache.warmUp || this.warmed.has(registry)) continue;
      this.warmed.add(registry);
      // Its share is of a budget of its own: what is read goes into the cache, and nothing else holds it.
      this.jobs.add(`warm up ${registry.upstream.name}`, () =>
        warmUp(registry, {
          request: () => this.request(registry),
          share: new ReadingBudget(this.options.clock).begin(),
        }),
      );
    }
    this.cancelTick = this.options.clock.after(TICK, () => this.tick());
    this.readDue();
  }

  private readDue(): void {
    const { clock, isListing, registries } = this.options;
    if (!isListing()) return;
    const now = clock.now();
    for (const registry of registries()) {
      const isWanted = now < this.wantedUntil || registry.upstream.config.cache.warmUp;
      const { dueAt, softEpoch } = this.scheduleOf(registry);
      if (isWanted && (dueAt <= now || softEpoch !== softEpochOf(registry))) {
        this.jobs.add(`list ${registry.upstream.name}`, () => this.read(registry));
      }
    }
  }

  private async read(registry: RegistryMetadata): Promise<void> {
    const { clock, random, listed } = this.options;
    const schedule = this.scheduleOf(registry);
    const share = this.budget.begin();
    schedule.softEpoch = softEpochOf(registry);
    try {
      const listing = await readWholeListing(registry, { clock, request: () => this.request(registry), share });
      await listed(listing);
      const fresh = listing.freshUntil - clock.now();
      // Pages that are not stored say nothing about when to come back: then it is as if they lived for the usual time.
      const period = fresh > 0 ? fresh : registry.upstream.config.cache.ttl.instruments;
      const isWhole = listing.cutShortBy === undefined;
      schedule.setbacks = isWhole ? 0 : schedule.setbacks + 1;
      const pause = isWhole ? 0 : backOff(schedule);
      schedule.dueAt = clock.now() + Math.min(Math.max(period, pause, MIN_PERIOD), MAX_PERIOD);
    } catch {
      // The upstream's own metrics and log lines say what is wrong with it.
      schedule.setbacks += 1;
      schedule.dueAt = clock.now() + Math.min(backOff(schedule), MAX_BACKOFF) * (0.75 + random() / 2);
    } finally {
      share.end();
    }
    schedule.isSettled = true;
    this.settled.resolve();
    this.settled = Promise.withResolvers();
  }

  private scheduleOf(registry: RegistryMetadata): Schedule {
    let schedule = this.schedules.get(registry);
    if (schedule === undefined) {
      schedule = { dueAt: -Infinity, softEpoch: "", setbacks: 0, isSettled: false };
      this.schedules.set(registry, schedule);
    }
    return schedule;
  }

  private request(registry: RegistryMetadata): MetadataRequest {
    return registry.backgroundRequest(this.options.clock, this.stopping);
  }
}

function softEpochOf({ upstream: { admin }, coordinator: { epochs } }: RegistryMetadata): string {
  return admin === undefined ? "" : listingSoftEpoch(epochs, admin);
}

function backOff({ setbacks }: Schedule): Duration {
  return MIN_PERIOD * 2 ** (setbacks - 1);
}

/** Work that no client waits for: one job per name at a time, few at once, and none beyond a bounded queue. */
class Jobs {
  private readonly waiting = new Map<string, () => Promise<void>>();
  private readonly running = new Map<string, Promise<void>>();
  private isStopped = false;

  /**
   * Runs `job` soon, unless one of its name runs or waits already, or too many wait. That it fails is no error: a client
   * that asks for the same is notified of what is wrong, and the upstream's metrics and log lines say it too.
   */
  add(name: string, job: () => Promise<void>): void {
    if (this.isStopped || this.waiting.has(name) || this.running.has(name)) return;
    if (this.waiting.size >= MAX_WAITING) return;
    this.waiting.set(name, job);
    this.startNext();
  }

  /** Forgets what waits, and resolves when what runs has ended. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.waiting.clear();
    await Promise.all(this.running.values());
  }

  private startNext(): void {
    for (const [name, job] of this.waiting) {
      if (this.running.size >= CONCURRENCY) return;
      this.waiting.delete(name);
      const ended = () => {
        this.running.delete(name);
        this.startNext();
      };
      this.running.set(name, job().then(ended, ended));
    }
  }
}
