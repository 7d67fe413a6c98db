import { Cache } from "../../../src/cache/cache.ts";
import type { CacheKey, CachePolicy, Condition, Fetched, FetchPurpose, Found } from "../../../src/cache/types.ts";
import type { Wait } from "../../../src/clock.ts";
import { GatewayError } from "../../../src/errors.ts";
import { createAlone } from "../../../src/sharing/alone.ts";
import type { Sharing } from "../../../src/sharing/ports.ts";
import { TestClock } from "../../support/clock.ts";

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;

export const POLICY: CachePolicy = {
  ttl: 10 * SECOND,
  maxTtl: 10 * MINUTE,
  notFoundTtl: 5 * SECOND,
  honorUpstream: true,
  clientTtl: 0,
  staleWhileRevalidate: 30 * SECOND,
  staleIfError: 10 * MINUTE,
  forwardResponseHeaders: [],
  isCacheOnly: false,
};

export const KEY: CacheKey = { party: "amulet::1220", name: "info", isMinor: false, generation: 0 };

/** What a registry is scripted to answer. */
export interface Scripted {
  readonly status?: number;
  readonly fields?: readonly string[];
  readonly body?: string;
  readonly node?: string;
  readonly unstorable?: string;
  readonly generation?: number;
}

export const failure = (): GatewayError => new GatewayError("upstream_reset", "the registry broke off");

/** A fetch that the cache asked for, answered when the test says so. */
export interface Fetching {
  readonly condition: Condition | undefined;
  readonly purpose: FetchPurpose;
  answer(scripted?: Scripted): Promise<void>;
  fail(error?: Error): Promise<void>;
}

/** Lets everything run that waits for no time. */
export const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A cache, its clock, and a registry whose answers a test gives by hand. */
export class Scene {
  readonly clock;
  readonly sharing: Pick<Sharing, "entries" | "leases" | "purges">;
  readonly cache: Cache;
  readonly fetches: Fetching[] = [];
  policy: CachePolicy;
  key = KEY;

  constructor(
    policy: Partial<CachePolicy> = {},
    sharing?: Pick<Sharing, "entries" | "leases" | "purges">,
    clock = TestClock.standing(),
  ) {
    this.clock = clock;
    this.sharing = sharing ?? createAlone(clock);
    this.policy = { ...POLICY, ...policy };
    this.cache = new Cache({
      memory: 2 ** 20,
      clock,
      sharing: this.sharing,
      random: () => 0,
      observer: { evicted() {} },
    });
  }

  get(wait: Partial<Wait> = {}): Promise<Found> {
    const found = this.cache.get(this.key, this.policy, (condition, purpose) => this.fetch(condition, purpose), {
      deadline: this.clock.now() + MINUTE,
      ...wait,
    });
    // A test looks at failures later than they come.
    found.catch(() => undefined);
    return found;
  }

  /** Asks, and answers the one fetch of it. */
  async answered(scripted: Scripted = {}): Promise<Found> {
    const found = this.get();
    await settle();
    await this.last.answer(scripted);
    return found;
  }

  get last(): Fetching {
    return this.fetches.at(-1)!;
  }

  async advance(duration: number): Promise<void> {
    await settle();
    this.clock.advance(duration);
    await settle();
  }

  private fetch(condition: Condition | undefined, purpose: FetchPurpose): Promise<Fetched> {
    return new Promise((resolve, reject) => {
      this.fetches.push({
        condition,
        purpose,
        answer: (scripted = {}) => {
          resolve(fetched(scripted, this.clock.now()));
          return settle();
        },
        fail: (error = failure()) => {
          reject(error);
          return settle();
        },
      });
    });
  }
}

export function fetched(scripted: Scripted, receivedAt: number): Fetched {
  const { status = 200, fields = [], body = "{}", node = "https://a.example", ...others } = scripted;
  return { status, fields, body: Buffer.from(body), node, receivedAt, ...others };
}

/** What a client sees of an answer: how it came, and its body. */
export const seen = ({ outcome, entry }: Found): string => `${outcome} ${entry.status} ${entry.body.toString()}`;

/** What replicas share, as Redis would keep it, by a clock of its own. Purges hold at all replicas at once. */
export class Store {
  readonly clock = TestClock.standing();
  readonly entries = new Map<string, { readonly head: string; readonly body: Buffer; readonly end: number }>();
  readonly leases = new Map<string, number>();
  private readonly purges = createAlone(this.clock).purges;
  private replicas: Scene[] = [];

  /** A replica whose clocks say what they want. */
  replica(policy: Partial<CachePolicy> = {}): Scene {
    const clock = TestClock.standing();
    clock.advance(this.replicas.length * 12_345_678);
    clock.stepWall(this.replicas.length * -987_654_321);
    const scene = new Scene(policy, this.ports(), clock);
    this.replicas.push(scene);
    return scene;
  }

  /** Time goes on everywhere. */
  async advance(duration: number): Promise<void> {
    await settle();
    for (const { clock } of [this, ...this.replicas]) clock.advance(duration);
    await settle();
  }

  private ports(): Pick<Sharing, "entries" | "leases" | "purges"> {
    const { clock, entries, leases, purges } = this;
    const idOf = ({ party, name }: { party: string; name: string }): string => `${party} ${name}`;
    return {
      purges,
      entries: {
        get(key) {
          const entry = entries.get(idOf(key));
          const remaining = (entry?.end ?? 0) - clock.now();
          return Promise.resolve(
            entry && remaining > 0 ? { head: entry.head, body: entry.body, remaining } : undefined,
          );
        },
        set: (key, { remaining, ...entry }) => void entries.set(idOf(key), { ...entry, end: clock.now() + remaining }),
        delete: (key) => void entries.delete(idOf(key)),
      },
      leases: {
        acquire(key) {
          if ((leases.get(idOf(key)) ?? 0) > clock.now()) return Promise.resolve("held");
          // A holder that lives renews: here it lives for ever.
          leases.set(idOf(key), Infinity);
          return Promise.resolve({ release: () => void leases.delete(idOf(key)) });
        },
      },
    };
  }
}
